// Package repo holds the repository to itself: docs to the code, names to the glossary, the compose file and the manifests' images
// to the processes, a release to its recipe. Its tests need no server.
package repo
