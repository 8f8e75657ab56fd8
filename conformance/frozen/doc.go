// Package frozen keeps modules of this contract, of the one before it and of the one after it, as
// text that does not change: its tests hold the promise of docs/reference/abi.md about versions.
package frozen
