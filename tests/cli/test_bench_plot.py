"""penstock bench --plot: what is drawn."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_support import DATA, assert_one_sentence

SVG = "{http://www.w3.org/2000/svg}"
SIM = "sim:read=500m,write=400m,latency=80us"


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


def texts(path):
    return [text.text for text in ElementTree.parse(path).getroot().iter(f"{SVG}text") if text.text]


def test_a_job_that_swaps(bench, model, tmp_path):
    done = bench(*swap_keys(model, phase="train", compute="3ms"), "--plot=plot.svg")
    assert done.returncode == 0, done.stderr
    shown = texts(tmp_path / "plot.svg")
    for wanted in ("bandwidth, MB/s", "pinned memory, MiB", "simulated time, s", "read", "write", "in use", "waiting"):
        assert any(wanted in text for text in shown), (wanted, shown)


def test_jobs_that_share_a_plot_are_named(bench, model, tmp_path):
    done = bench(*swap_keys(model, name="one"), *raw_keys("two"), "--plot=plot.svg")
    assert done.returncode == 0, done.stderr
    shown = texts(tmp_path / "plot.svg")
    for wanted in ("one: read", "two: read", "two: write", "one: waiting", "time, s (partly simulated)"):
        assert any(wanted in text for text in shown), (wanted, shown)
    assert not any("two: waiting" in text for text in shown)


@pytest.mark.deep
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


@pytest.mark.deep
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
    done = bench(*raw_keys("x", rw="write"), "--plot=plot.svg", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert done.stdout == ""
    assert_one_sentence(done, "apt-get install python3-matplotlib", "No module named matplotlib")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["matplotlib.py"]
    assert bench(*raw_keys("x"), env={"PYTHONPATH": str(tmp_path)}).returncode == 0
    nowhere = {"PYTHONPATH": str(tmp_path), "PATH": str(tmp_path)}
    no_python = bench(*raw_keys("x", rw="write"), "--plot=plot.svg", env=nowhere)
    assert no_python.returncode == 1
    assert_one_sentence(no_python, "apt-get install python3-matplotlib", "python3: No such file")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 takes modules from the working directory")
def test_modules_of_the_working_directory_are_not_taken(bench, write, tmp_path):
    write("matplotlib.py", "raise ImportError('of the working directory')\n")
    done = bench(*raw_keys("x"), "--plot=plot.svg")
    assert done.returncode == 0, done.stderr


def test_a_drawing_that_fails_takes_no_figures_along(bench, write, tmp_path):
    write("matplotlib.py", "__version__ = '0'\n")
    done = bench(*raw_keys("x"), "--plot=plot.svg", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "4.0 MiB in" in done.stdout or "MiB in" in done.stdout
    assert "matplotlib" in done.stderr
    assert not (tmp_path / "plot.svg").exists()


def test_the_quickstarts_picture_has_the_same_style(tmp_path):
    pytest.importorskip("matplotlib")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom training_run import Result, Sample\nfrom picture import draw\n"
        "samples = [Sample(i, i * 10**9, i * 10**8, i * 10**9, 0) for i in range(5)]\n"
        "draw([Result('a run', 0, [], samples, 0.0)], Path(sys.argv[2]), 'title')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(DATA.parent), str(tmp_path / "q.svg")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = texts(tmp_path / "q.svg")
    assert any("a run: pinned" in text for text in shown)
    assert any("read from drives, GB" in text for text in shown)
    assert "#1b6ca8" in (tmp_path / "q.svg").read_text()
