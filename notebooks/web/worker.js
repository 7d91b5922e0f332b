// Python, in a thread of its own: it loads Pyodide and runs one cell after another.

let python, cells, names;

const say = (kind, more) => postMessage({ kind, ...more });

const fetched = async (url, hash) => {
  const answer = await fetch(url, hash ? { integrity: `sha256-${hash}` } : {});
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${answer.statusText}`);
  return answer.arrayBuffer();
};

// An import waits for its package, so it is fetched synchronously, as a worker may.
const fetchedNow = (url, name) => {
  say("loading", { words: `Loading ${name}` });
  const request = new XMLHttpRequest();
  request.open("GET", url, false);
  request.responseType = "arraybuffer";
  request.send();
  if (request.status !== 200) throw new Error(`${url}: ${request.status} ${request.statusText}`);
  say("loading", { words: "Running" });
  return new Uint8Array(request.response);
};

async function start({ base, settings, shared }) {
  const host = new URL(settings.pyodide, base).href, at = (url) => new URL(url, base).href;
  const files = [...settings.core.map(([name, hash, size]) => [host + name, hash, size]),
                 ...settings.start.map(([url, hash, size]) => [at(url), hash, size])];
  const whole = files.reduce((sum, [, , size]) => sum + size, 0);
  let done = 0;
  const progress = () => say("loading", {
    words: `Loading Python, ${(whole / 1e6).toFixed(0)} MB: ${(100 * done / whole).toFixed(0)}%` });
  progress();
  const data = await Promise.all(files.map(async ([url, hash, size]) => {
    const found = await fetched(url, hash);
    done += size;
    progress();
    return found;
  }));
  const { loadPyodide } = await import(`${host}pyodide.mjs`);
  python = await loadPyodide({ indexURL: host, env: { HOME: "/home/pyodide", MPLBACKEND: "Agg" } });
  data.slice(settings.core.length).forEach((wheel) => python.unpackArchive(wheel, "wheel"));
  const program = await (await fetch(new URL("cells.py", import.meta.url))).text();
  python.FS.writeFile("/home/pyodide/cells.py", program);
  cells = python.pyimport("cells");
  names = cells.new_names();
  const wheels = python.toPy(Object.fromEntries(Object.entries(settings.packages).map(
    ([name, needed]) => [name, needed.map(([url, hash]) => [at(url), hash])])));
  const site = python.runPython("import sysconfig; sysconfig.get_path('purelib')");
  python.pyimport("sys").meta_path.append(cells.Packages(wheels, fetchedNow, site));
  if (shared) python.setInterruptBuffer(shared);
  say("ready");
}

onmessage = async ({ data }) => {
  try {
    if (data.kind === "start") return await start(data);
    const show = (kind, text) => say("output", { id: data.id, type: kind, text });
    say("done", { id: data.id, ...JSON.parse(cells.run(data.code, data.number, names, show)) });
  } catch (error) {
    say("failed", { words: String(error.message || error) });
  }
};
