"""Firefox through WebDriver BiDi, its own protocol: no driver is needed, only a web socket."""

import json
import re
import subprocess
import tempfile
import time
from pathlib import Path

SETTINGS = {                                          # nothing that Firefox requests by itself
    "app.normandy.enabled": False, "app.update.enabled": False,
    "browser.newtabpage.enabled": False, "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage": "about:blank", "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False, "network.captive-portal-service.enabled":
    False, "network.connectivity-service.enabled": False, "remote.active-protocols": 1,
    "browser.safebrowsing.update.enabled": False, "extensions.update.enabled": False}
PATIENCE = 90                                         # seconds, on a busy machine


class Firefox:
    """A headless Firefox with one page; `close` ends it."""

    def __init__(self, binary):
        import websocket

        self._profile = tempfile.TemporaryDirectory()
        lines = [f'user_pref("{name}", {json.dumps(value)});' for name, value in SETTINGS.items()]
        (Path(self._profile.name) / "user.js").write_text("\n".join(lines))
        self._log = open(Path(self._profile.name) / "log.txt", "w+")
        self._process = subprocess.Popen(
            [binary, "--headless", "--no-remote", "--profile", self._profile.name,
             "--remote-debugging-port", "0", "about:blank"],
            stdout=self._log, stderr=subprocess.STDOUT)
        try:
            address = self._address()
            self._socket = websocket.create_connection(address + "/session", timeout=PATIENCE,
                                                       suppress_origin=True)
            self._sent, self.requests = 0, []
            self.send("session.new", capabilities={})
            self.page = self.send("browsingContext.getTree")["contexts"][0]["context"]
            self.send("session.subscribe", events=["network.beforeRequestSent"])
        except BaseException:
            self.close()
            raise

    def _address(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self._log.seek(0)
            found = re.search(r"WebDriver BiDi listening on (ws://\S+)", self._log.read())
            if found:
                return found[1]
            time.sleep(0.2)
        raise TimeoutError("Firefox has no WebDriver BiDi")

    def send(self, method, **parameters):
        """The result of a command; requests that come meanwhile are recorded."""
        self._sent += 1
        self._socket.send(json.dumps({"id": self._sent, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("type") == "event":
                self.requests.append(answer["params"]["request"]["url"])
            elif answer.get("id") == self._sent:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}: {answer['message']}")
                return answer["result"]

    def open(self, url):
        self.requests.clear()
        self.send("browsingContext.navigate", context=self.page, url=url, wait="complete")

    def script(self, body, *arguments):
        """What a function body returns for arguments, both as JSON."""
        code = (f"(async function () {{ {body} }}).apply(null, {json.dumps(arguments)})"
                ".then((value) => JSON.stringify(value ?? null))")
        found = self.send("script.evaluate", expression=code, awaitPromise=True,
                          target={"context": self.page})
        if found["type"] == "exception":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"]["value"])

    def press(self, keys):
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.send("input.performActions", context=self.page,
                  actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def resize(self, width, height):
        self.send("browsingContext.setViewport", context=self.page,
                  viewport={"width": width, "height": height})

    def close(self):
        if hasattr(self, "_socket"):
            self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        self._profile.cleanup()
