// Keeps the course for when there is no network. SITE is filled in when the site is built.
//
// Pages and notebooks come from the network where it answers, so that a corrected lesson is shown;
// all else has its hash in its name, or is of one release of Pyodide, and comes from what is kept.
// Answers also get the headers that let Stop interrupt Python, which few servers send by themselves.

const SITE = "SITE";
const CACHE = `${SITE.name} ${registration.scope}`;
const HOST = new URL(SITE.host, registration.scope).href;
const WAIT = 3000;                                    // milliseconds for a page of a slow network
const full = (name) => new URL(name, registration.scope).href;
const LISTED = new Set([...SITE.pages, ...SITE.rest].map(full));

self.addEventListener("install", (event) => {
  self.skipWaiting();
  event.waitUntil(keep(SITE.pages, "no-cache"));
});

self.addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) {
    const ours = name.startsWith("numformer ") && name.endsWith(` ${registration.scope}`);
    if (ours && name !== CACHE) await caches.delete(name);
  }
  const cache = await caches.open(CACHE);
  for (const request of await cache.keys()) {
    if (!LISTED.has(request.url)) await cache.delete(request);
  }
  await clients.claim();
})()));

// Once Python has run here, all that it can need is kept, and the pictures of all lessons.
self.addEventListener("message", (event) => {
  if (event.data === "keep") event.waitUntil(keep(SITE.rest, "default"));
});

async function keep(names, mode) {
  const cache = await caches.open(CACHE), missing = [];
  for (const url of names.map(full)) {
    if (mode === "no-cache" || !await cache.match(url)) missing.push(url);
  }
  const next = async () => {
    for (let url = missing.pop(); url; url = missing.pop()) {
      const answer = await fetch(url, { cache: mode });
      if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
      await cache.put(url, answer);
    }
  };
  await Promise.all([next(), next(), next(), next()]);
}

self.addEventListener("fetch", (event) => {
  const { request } = event, url = request.url.split(/[?#]/)[0];
  if (request.method !== "GET") return;
  if (!url.startsWith(registration.scope) && !url.startsWith(HOST)) return;
  event.respondWith(answer(request, url === registration.scope ? full("index.html") : url));
});

async function answer(request, url) {
  const cache = await caches.open(CACHE), saved = await cache.match(url);
  const mayChange = request.mode === "navigate" || url.endsWith(".ipynb");
  if (saved && !mayChange) return isolated(saved);
  const network = fetch(request).then(async (found) => {
    if (found.status === 200 && LISTED.has(url)) {
      cache.put(url, found.clone()).catch(() => {});  // where storage is full, it is shown still
    }
    return found;
  });
  if (!saved) return isolated(await network);
  const late = new Promise((resolve) => setTimeout(resolve, WAIT, saved));
  return isolated(await Promise.race([network.catch(() => saved), late]));
}

function isolated(response) {
  if (response.type === "opaque" || response.type === "opaqueredirect") return response;
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  headers.set("Cross-Origin-Resource-Policy", "same-origin");
  return new Response(response.body, { status: response.status, statusText: response.statusText,
                                       headers });
}
