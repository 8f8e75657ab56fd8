// Package assemblyscript holds the SDK for policies in AssemblyScript, an npm package, for
// programs that create or compile policies.
package assemblyscript

import "embed"

// Package are the files of the npm package.
//
//go:embed package.json *.ts
var Package embed.FS

// Name is the name of the npm package.
const Name = "@longshore/policy"
