// Assembles WebAssembly text: FILE.wat becomes FILE.wasm beside it. A comment
// "(; include NAME ;)" is replaced by that file. Modules are not validated, because
// many are invalid on purpose.
"use strict";
const { readFileSync, writeFileSync } = require("node:fs");
const { dirname, join } = require("node:path");

const read = (file) => readFileSync(file, "utf8");

async function assemble(files) {
  const wabt = await require("wabt")();
  for (const file of files) {
    const text = read(file).replace(/\(; include (\S+) ;\)/g, (_, name) => read(join(dirname(file), name)));
    const module = wabt.parseWat(file, text);
    writeFileSync(file.replace(/wat$/, "wasm"), module.toBinary({}).buffer);
    module.destroy();
  }
}

assemble(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exit(1);
});
