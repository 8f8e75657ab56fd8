// Package compiler compiles policy modules in a child process under limits.
//
// The time and memory of a compiler are not linear in the size of the module: a few hundred
// bytes can need minutes, and a few kilobytes can need gigabytes. A component therefore does
// not compile modules of policies itself. [Process.Compile] runs the binary of the component as
// a child process. There [Child] sets limits, which the kernel enforces, compiles the module,
// and stores the result in a directory from which the component loads it. A module that
// exceeds its [Budget] is refused.
//
// Package engine compiles; this package only starts and limits processes.
package compiler
