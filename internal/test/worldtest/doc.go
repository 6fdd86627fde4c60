// Package worldtest has the parts that tests of several packages put their worlds together from: a store on a schema of its
// own, an index that remembers what is put, one that stores nothing, a term, a loop that runs until the test ends, and
// the values of metrics. What only one package needs stays in that package.
//
// A part belongs to the test that makes it: it ends with the test, and a failure of its methods ends the test. Servers
// come from pipelinetest.
package worldtest
