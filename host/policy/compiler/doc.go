// Package compiler compiles policy modules in a child process under limits.
//
// The time and memory of a compiler are not linear in the size of the module: a few hundred
// bytes can need minutes, and a few kilobytes can need gigabytes. A component therefore does
// not compile modules of policies itself. [Process.Compile] runs the binary of the component as
// a child process. There [Child] sets limits, which the kernel enforces, compiles the module,
// and stores the result in a directory from which the component loads it. A module that
// exceeds its [Budget] is refused.
//
// Bounds on the module alone do not hold this. Those of package fuel are advice for authors, ten times
// what compilers produce. wazero multiplies local variables by branches
// when it builds SSA and when it allocates registers, calls by mutable globals, functions by
// types and globals, and has more such products in code that changes with each version. A module
// of 850 bytes cost 158 seconds of CPU time; one of 36 KB cost 2.5 GB in the webhook, and 1.6 GB in
// each virtual kubelet. A large Go guest (2.6 MB) takes 1.1 seconds of CPU time and 65 MiB, its
// child included. The time depends on the machine: one that is four times slower would refuse large
// guests.
//
// When memory runs out, the kernel kills children before the component. A module on which the
// compiler crashes is refused like one that exceeds the budget.
//
// Package engine compiles; this package only starts and limits processes.
package compiler
