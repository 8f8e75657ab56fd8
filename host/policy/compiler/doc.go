// Package compiler compiles policy modules in a child process under limits.
//
// A compiler's time and memory are not linear in the module's size: a module of a few
// hundred bytes can cost minutes, one of a few kilobytes gigabytes. So a component never
// compiles a policy's module itself. [Process.Compile] runs the component's own binary a
// second time; there [Child] sets limits that the kernel keeps, compiles, and leaves the
// result in a directory from which the component loads it. A module that needs more than
// its [Budget] is refused.
//
// Package engine compiles; this package only starts and limits processes.
package compiler
