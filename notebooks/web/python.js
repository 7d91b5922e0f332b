// The page's side of Python: it starts the worker, gives it one cell at a time, and can stop it.

const PATIENCE = 3000;           // milliseconds until Python that was interrupted is ended

export class Python {
  // settings: what the worker loads. on: functions of what happens, {status(words), lost()}.
  constructor(settings, on) {
    Object.assign(this, { settings, on, worker: null, ready: null, running: null });
    // Only where the server's headers isolate the page can two threads share memory
    this.shared = self.crossOriginIsolated ? new Uint8Array(new SharedArrayBuffer(1)) : null;
  }

  start() {
    this.ready ??= new Promise((resolve, reject) => {
      this.reject = reject;
      this.worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
      this.worker.onmessage = ({ data }) => {
        if (data.kind === "ready") { this.isReady = true; resolve(); }
        else if (data.kind === "loading") this.on.status(data.words);
        else if (data.kind === "output" && data.id === this.running?.id) {
          this.running.show(data.type, data.text);
        } else if (data.kind === "done" && data.id === this.running?.id) this.end(data);
        else if (data.kind === "failed") this.lose(`Python has ended: ${data.words}`);
      };
      this.worker.onerror = (event) =>
        this.lose(`Python has ended: ${event.message || "no reason"}`);
      this.worker.postMessage({ kind: "start", base: new URL(".", location.href).href,
                                settings: this.settings, shared: this.shared });
    });
    return this.ready;
  }

  // Runs a cell; what it shows goes to show(kind, text). Returns {ok, right}.
  async run(code, number, show) {
    await this.start();
    if (this.shared) this.shared[0] = 0;
    return new Promise((resolve) => {
      const id = (this.count = (this.count || 0) + 1);
      this.running = { id, show, resolve };
      this.worker.postMessage({ kind: "run", id, code, number });
    });
  }

  end(result) {
    clearTimeout(this.timer);
    const { resolve } = this.running;
    this.running = null;
    resolve(result);
  }

  // Interrupts a cell where threads share memory; otherwise, or if that does not help, ends Python.
  stop() {
    if (this.shared && this.running) {
      this.shared[0] = 2;
      clearTimeout(this.timer);                       // Stop was pressed twice
      this.timer = setTimeout(() => this.running && this.restart(), PATIENCE);
    } else this.restart();
  }

  restart() {
    this.lose("Python was ended to stop the cell: what the cells had defined is gone. " +
              "Run the cells that come before again (Run to here).");
    this.start().catch(() => {});                     // the next run says what is wrong
  }

  lose(words) {
    this.worker?.terminate();
    this.worker = this.ready = null;
    this.isReady = false;
    this.reject?.(new Error(words));                  // of a start that has not ended
    const { running } = this;
    this.on.lost(words);
    if (running) {
      running.show("error", words);
      this.end({ ok: false, right: null, lost: true });
    }
  }
}
