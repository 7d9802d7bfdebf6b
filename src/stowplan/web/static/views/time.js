// Time: throughput, latency, who waits and how full, over the last minutes; each also as a table.

import { html } from "../lib.js";
import { Chart } from "../chart.js";
import { useData, useShared } from "../state.js";
import { Loading, Problem } from "../parts.js";

const CHARTS = [
  ["throughput", "Throughput", "a second"],
  ["latency", "How long a decision takes", "ms"],
  ["causes", "Pending, by who turns them down", "pods"],
  ["lanes", "Pending, by lane", "pods"],
  ["fill", "How full", "%"],
];

export function TimeView() {
  const { about } = useShared();
  const { data, error } = useData("time");
  if (error) return html`<${Problem} error=${error} />`;
  if (!data) return html`<${Loading} />`;
  return html`${about && !about.live ? html`<p class="note">Nothing runs here: a dump has no minutes. There is one sample, of the moment when everything was decided.</p>` : null}
    <div class="charts">${CHARTS.filter(([key]) => key !== "throughput" || about?.live).map(([key, title, unit]) => html`<${Chart} key=${key} id=${key} title=${title} unit=${unit} times=${data.time} series=${data[key]} />`)}</div>`;
}
