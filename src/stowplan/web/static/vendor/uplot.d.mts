// What the page uses of uPlot, for the type checker.
export default class uPlot {
  constructor(options: object, data: (number | null)[][], target: Element);
  setData(data: (number | null)[][]): void;
  setSize(size: { width: number; height: number }): void;
  redraw(rebuildPaths?: boolean): void;
  destroy(): void;
}
