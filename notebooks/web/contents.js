// The list of lessons: how many of the functions that each checks have been right in this browser.

for (const item of document.querySelectorAll("li[data-lesson]")) {
  const { lesson, checks } = item.dataset;
  const keys = checks.split(" ").filter(Boolean);
  try {
    const right = keys.filter((key) => localStorage.getItem(`numformer right ${lesson} ${key}`));
    if (right.length) item.append(` (${right.length} of ${keys.length} right)`);
  } catch { /* this browser keeps nothing */ }
}
navigator.serviceWorker?.register("offline.js");
