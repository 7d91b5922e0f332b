// Run a Python program in Pyodide:
// node pyodide.mjs PYODIDE PACKAGES NAMES ROOT FOLDER PROGRAM [WORD ...]
//
// PYODIDE is the folder of the npm package, PACKAGES that of wheels, and NAMES are those to load. ROOT
// is the repository, and FOLDER is where the program works; both have the same path inside. Warnings
// are errors.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, packages, names, root, folder, ...words] = process.argv.slice(2);

const PROGRAM = `
import os, runpy, sys, warnings
warnings.simplefilter("error")
os.chdir(folder)
sys.argv[:] = words
sys.path[:0] = [os.path.dirname(words[0]), root, f"{root}/tests"]
status = 0
try:
    runpy.run_path(words[0], run_name="__main__")
except SystemExit as end:
    status = end.code or 0
status`;

async function run() {
    const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
    const python = await loadPyodide({
        packageCacheDir: packages, env: { HOME: "/home", MPLBACKEND: "Agg" } });
    const errors = [], isFile = (name) => name.endsWith(".whl");
    await python.loadPackage(names.split(",").filter((name) => !isFile(name)),
                             { messageCallback() {}, errorCallback: (words) => errors.push(words) });
    if (errors.length) throw new Error(errors.join("\n"));
    const site = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
    for (const name of names.split(",").filter(isFile)) {
        python.unpackArchive(new Uint8Array(fs.readFileSync(path.join(packages, name))), "wheel",
                             { extractDir: site });
    }
    for (const each of [root, folder]) {
        python.FS.mkdirTree(each);
        python.mountNodeFS(each, each);
    }
    python.globals.set("words", python.toPy(words));
    python.globals.set("folder", folder);
    python.globals.set("root", root);
    return python.runPython(PROGRAM);
}

try {
    process.exitCode = await run();
} catch (error) {                                     // node would print all of Pyodide's code
    console.error(error.message);
    process.exitCode = 1;
}
