// Package deploy holds what duetime is deployed by, and the tests that hold it to what Kubernetes accepts and to what our
// processes do. It is a module of its own, so that the libraries that the tests need never enter the product.
package deploy
