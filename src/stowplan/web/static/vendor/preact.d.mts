// What the page uses of Preact, for the type checker.
export type Child = unknown;
export function h(type: unknown, props: unknown, ...children: Child[]): unknown;
export function render(tree: unknown, into: Element): void;
export function Fragment(props: { children?: Child }): unknown;
