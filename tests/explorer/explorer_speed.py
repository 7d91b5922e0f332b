"""What a live page costs in this machine's Chromium: milliseconds a key, frames a second.

    python -m numformer explore RUN --out page.html
    python tests/explorer/explorer_speed.py page.html

Each figure is the median, and in brackets the least, of nine: on a busy machine the least is nearer
to what the page needs. So is the CPU time of the page's thread for a frame: 60 frames a second need
less than 16.7 ms.
"""

import sys
from pathlib import Path
from shutil import which

WORDS = {"end": "a key at the end of 64 tokens", "beginning": "a key at their beginning",
         "forward": "the model alone, all tokens", "backward": "the backward pass",
         "point": "another token pointed at"}


def cpu_seconds(browser):
    """CPU time of the page's thread so far: scripts, styles, layout and painting."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    found = {each["name"]: each["value"] for each in metrics}
    return found["TaskDuration"]


def main(path):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = which("chromium") or which("chromium-browser")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(
        executable_path=which("chromedriver")))
    try:
        browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        browser.set_script_timeout(300)
        browser.get(Path(path).resolve().as_uri())
        for mode in ("grid", "heads"):
            found = browser.execute_async_script(
                "document.querySelector(`[data-at='view-${arguments[0]}']`).click(); "
                "numformerPage.measure().then(arguments[1])", mode)
            before = cpu_seconds(browser)
            browser.execute_async_script(
                "numformerPage.framesWhilePointing(120).then(arguments[0])")
            cpu = 1000 * (cpu_seconds(browser) - before) / 120
            print(f"{mode}: {found.pop('frames'):.0f} frames a second while pointing, {cpu:.1f} ms "
                  "of CPU each")
            for name, each in found.items():
                print(f"  {WORDS[name]}: {each['median']:.1f} ms ({each['least']:.1f})")
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
