// CommonJS finds the package and its types.
import assert = require("node:assert/strict");
import runner = require("node:test");
import duetime = require("duetime");

runner.test("CommonJS can require the package", () => {
  const delay: duetime.Duration = "1s";
  assert.equal(new duetime.Snooze(delay).delay, delay);
  assert.match(require.resolve("duetime"), /cjs/); // Jest has no require of modules
});
