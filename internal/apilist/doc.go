// Command apilist writes down what the importable packages of this module export:
// a file a package under api/, a line for each constant, variable, function,
// type, field and method, with its signature.
//
//	go run ./internal/apilist
//
// Its test fails when a package and its file differ, so that whoever changes the
// API says so, in a diff that a reviewer reads: a line that goes breaks users. A
// second test keeps what the library packages import small.
package main
