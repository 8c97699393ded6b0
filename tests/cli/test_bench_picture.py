"""penstock bench --plot and --html: what is drawn, and the page as a browser shows it."""

import re
import shutil
import socketserver
import subprocess
import sys
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_support import DATA, assert_one_sentence

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">&'$\\frac"
SIM = "sim:read=500m,write=400m,latency=80us"
# Blue and red, of which the first curves are (bench/report/line_picture.py).
FIRST, SECOND = (0x1B, 0x6C, 0xA8), (0xD1, 0x49, 0x5B)
# Read by a copy of the page: how wide it came out, what is cut off at the edge of a picture, and whether a name ran.
LOOK = """<script>addEventListener('load', () => {
  const outside = [...document.querySelectorAll('svg')].flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]).filter(
      ([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1);
  });
  const seen = {width: document.documentElement.scrollWidth, window: innerWidth, cut: outside.map(([text]) => text),
    scripts: document.scripts.length, images: document.images.length, title: document.title};
  document.body.innerHTML = '<pre id="seen">' + btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) + '</pre>';
});</script>"""


@pytest.fixture
def bench(penstock, tmp_path):
    pytest.importorskip("matplotlib")

    def run(*arguments, env=None):
        # Of all interpreters that it may try, one has matplotlib.
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        return penstock("bench", *arguments, cwd=tmp_path, env={"PATH": path, **(env or {})})

    return run


@pytest.fixture
def model(write):
    tensors = [{"name": f"w{i}", "dtype": "bf16", "shape": [(i % 3 + 1) * 524288], "role": "param"} for i in range(24)]
    return write("model.json", {"tensors": [{**tensors[0], "name": "embed", "shape": [4194304]}, *tensors]})


def swap_keys(model, name="x", **more):
    values = {
        "name": name,
        "workload": "swap",
        "inventory": model,
        "ioengine": SIM,
        "max_pinned": "16m",
        "ram": 0,
        **more,
    }
    return [f"--{key}={value}" for key, value in values.items()]


def raw_keys(name, **more):
    values = {"name": name, "stonewall": 1, "size": "4m", "bs": "64k", "rw": "rw", **more}
    return [f"--{key}={value}" for key, value in values.items()]


@pytest.fixture
def page(bench, model, tmp_path):
    """A page with all that there is: a job in virtual time, two beside each other on files, a name that means harm."""
    done = bench(
        *swap_keys(model, "train", phase="train", compute="3ms"), *raw_keys(HOSTILE, filename="f"),
        "--name=beside", "--size=4m", "--rw=write", "--html=page.html", "--plot=plot.svg",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return tmp_path / "page.html"


def texts(path):
    return [text.text for text in ElementTree.parse(path).getroot().iter(f"{SVG}text") if text.text]


def test_a_job_that_swaps(bench, model, tmp_path):
    done = bench(*swap_keys(model, phase="train", compute="3ms"), "--plot=plot.svg")
    assert done.returncode == 0, done.stderr
    shown = texts(tmp_path / "plot.svg")
    for wanted in ("bandwidth, MB/s", "pinned memory, MiB", "simulated time, s", "read", "write", "in use", "waiting"):
        assert any(wanted in text for text in shown), (wanted, shown)


def test_virtual_time_draws_the_same_bytes(bench, model, tmp_path):
    for name in ("one.svg", "two.svg"):
        assert bench(*swap_keys(model), f"--plot={name}").returncode == 0
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_raw_job_has_bandwidth_alone(bench, tmp_path):
    done = bench(*raw_keys("x"), "--plot=plot.svg")
    assert done.returncode == 0, done.stderr
    shown = texts(tmp_path / "plot.svg")
    assert any("bandwidth" in text for text in shown)
    assert not any("pinned" in text or "simulated" in text for text in shown)


def test_every_workload_that_swaps_is_drawn(bench, model, write, tmp_path):
    trace = tmp_path / "trace.jsonl"
    assert bench(*swap_keys(model), env={"PENSTOCK_TRACE": str(trace)}).returncode == 0
    done = bench(*swap_keys(model, workload="update"), "--plot=update.svg")
    assert done.returncode == 0, done.stderr
    done = bench("--name=x", "--workload=replay", f"--trace={trace}", f"--ioengine={SIM}", "--plot=replay.svg")
    assert done.returncode == 0, done.stderr
    for name in ("update.svg", "replay.svg"):
        assert any("pinned memory" in text for text in texts(tmp_path / name))


def test_without_matplotlib_nothing_is_run(bench, write, tmp_path):
    write("matplotlib.py", "raise ImportError('No module named matplotlib')\n")
    for option in ("--plot=plot.svg", "--html=page.html"):
        done = bench(*raw_keys("x", rw="write"), option, env={"PYTHONPATH": str(tmp_path)})
        assert done.returncode == 1
        assert done.stdout == ""
        assert_one_sentence(done, "apt-get install python3-matplotlib", "No module named matplotlib")
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["matplotlib.py"]
    assert bench(*raw_keys("x"), env={"PYTHONPATH": str(tmp_path)}).returncode == 0


def test_a_drawing_that_fails_takes_no_figures_along(bench, write, tmp_path):
    write("matplotlib.py", "__version__ = '0'\n")
    done = bench(*raw_keys("x"), "--plot=plot.svg", "--html=page.html", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "4.0 MiB in" in done.stdout or "MiB in" in done.stdout
    assert "matplotlib" in done.stderr
    assert "There is no picture: " in (tmp_path / "page.html").read_text()
    assert not (tmp_path / "plot.svg").exists()


def test_the_page_needs_nothing_else(page):
    text = page.read_text()
    assert "default-src 'none'" in text
    for reference in re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]*)""", text.replace("&quot;", '"')):
        assert reference.startswith("#") or reference == "x", reference  # x: of the name, which is text
    assert not re.search(r"<script|@import|<link|<img|<iframe|url\((?!#)", text)


def test_the_page_says_all_that_there_is(page, penstock, model):
    text = page.read_text()
    for section in ("command", "results", "latency", "swap", "time", "plan", "jobs"):
        assert f"<section id='{section}'>" in text, section
    assert "id='pairs'" not in text
    plan = penstock("plan", model, "--max-pinned=16m", "--ram=0", "--memory=256GiB").stdout
    classes = plan[plan.index("Size classes") : plan.index("What becomes")]
    assert classes in text
    assert "the job&#39;s max_pinned" in text
    assert f"--inventory={model}" in text
    assert str(page.parent) in text


# In a browser.


@pytest.fixture(scope="session")
def chromium():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("there is no browser to look with (apt-get install chromium)")


class Proxy(socketserver.ThreadingTCPServer):
    """Whom a browser would ask for anything outside; says no, and remembers."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), None)
        self.asked = []

    def finish_request(self, request, client_address):
        self.asked.append(request.recv(4096).decode(errors="replace").split("\r\n")[0])
        request.sendall(b"HTTP/1.1 502 no\r\nConnection: close\r\n\r\n")

    def asked_by_pages(self):
        """Without what the browser asks for itself."""
        return [line for line in self.asked if not re.search(r"google|gvt1|chromium", line)]


@pytest.fixture
def browse(chromium, tmp_path):
    """Runs the browser on a page; what it would have fetched is in .asked_by_pages()."""
    proxy = Proxy()
    threading.Thread(target=proxy.serve_forever, daemon=True).start()

    def run(path, *arguments):
        command = [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
            f"--user-data-dir={tmp_path / 'profile'}", f"--proxy-server=127.0.0.1:{proxy.server_address[1]}",
            *arguments, path.as_uri(),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run.proxy = proxy
    yield run
    proxy.shutdown()
    proxy.server_close()


def look(browse, page, width):
    """What LOOK sees in a copy that may run scripts."""
    import base64
    import json

    copy = page.with_name("look.html")
    text = re.sub(r"<meta http-equiv='Content-Security-Policy'[^>]*>", "", page.read_text())
    copy.write_text(text.replace("</head>", LOOK + "</head>"))
    dom = browse(copy, f"--window-size={width},900", "--dump-dom")
    found = re.search(r'<pre id="seen">([A-Za-z0-9+/=]+)</pre>', dom)
    assert found, dom[:2000]
    return json.loads(base64.b64decode(found[1]))


@pytest.mark.deep
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 600])
def test_the_page_fits_its_window(browse, page, width):
    seen = look(browse, page, width)
    assert seen["width"] <= seen["window"] <= width
    assert seen["cut"] == []


@pytest.mark.deep
@pytest.mark.browser
def test_names_are_texts(browse, page):
    seen = look(browse, page, 1280)
    assert (seen["title"], seen["scripts"], seen["images"]) == ("penstock bench", 1, 0)
    assert "&lt;script&gt;document.title" in browse(page, "--dump-dom")


@pytest.mark.deep
@pytest.mark.browser
def test_no_request_leaves_the_page(browse, page):
    browse(page, "--dump-dom")
    assert browse.proxy.asked_by_pages() == []
    # That one would be seen:
    text = re.sub(r"<meta http-equiv='Content-Security-Policy'[^>]*>", "", page.read_text())
    outside = page.with_name("outside.html")
    outside.write_text(text.replace("</body>", "<img src='http://elsewhere.invalid/a.png'></body>"))
    browse(outside, "--dump-dom")
    assert any("elsewhere.invalid" in line for line in browse.proxy.asked_by_pages())
    # And that the page forbids it.
    browse.proxy.asked.clear()
    outside.write_text(page.read_text().replace("</body>", "<img src='http://elsewhere.invalid/b.png'></body>"))
    browse(outside, "--dump-dom")
    assert browse.proxy.asked_by_pages() == []


def pixels_like(path, colour):
    from PIL import Image

    with Image.open(path) as image:
        data = image.convert("RGB").tobytes()
    near = zip(data[0::3], data[1::3], data[2::3], strict=True)
    return sum(1 for pixel in near if all(abs(a - b) <= 24 for a, b in zip(pixel, colour, strict=True)))


@pytest.mark.deep
@pytest.mark.browser
def test_the_picture_is_not_blank(browse, page, tmp_path):
    shot = tmp_path / "shot.png"
    browse(page, "--window-size=1100,3600", f"--screenshot={shot}")
    assert pixels_like(shot, FIRST) > 500
    assert pixels_like(shot, SECOND) > 500
    # Without the picture there is nothing of these colours.
    bare = tmp_path / "bare.html"
    bare.write_text(re.sub(r"<svg.*</svg>", "", page.read_text(), flags=re.DOTALL))
    browse(bare, "--window-size=1100,3600", f"--screenshot={shot}")
    assert pixels_like(shot, FIRST) + pixels_like(shot, SECOND) == 0


def test_the_quickstarts_picture_has_the_same_style(tmp_path):
    pytest.importorskip("matplotlib")
    bench = DATA.parent
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom leg import Result, Sample\nfrom picture import draw\nimport inspect\n"
        "fields = inspect.signature(Sample).parameters\n"
        "samples = [Sample(**{name: float(i) * 1e9 for name in fields}) for i in range(5)]\n"
        "class Leg: name = 'a leg'\n"
        "Leg.samples = samples\n"
        "draw([Leg], Path(sys.argv[2]), 'title')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(bench), str(tmp_path / "q.svg")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = texts(tmp_path / "q.svg")
    assert any("a leg: pinned" in text for text in shown)
    assert any("read from drives, GB" in text for text in shown)
    assert "#1b6ca8" in (tmp_path / "q.svg").read_text()
