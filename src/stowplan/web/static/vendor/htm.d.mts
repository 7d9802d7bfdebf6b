// htm bound to a function that makes elements, for the type checker.
declare const htm: {
  bind(make: unknown): (strings: TemplateStringsArray, ...values: unknown[]) => any;
};
export default htm;
