"""docs/SCREENS.md shows first screens of `penstock plan` as they are printed.

PENSTOCK_WRITE_SCREENS=1 pytest tests/cli/test_first_screens.py writes them anew.
"""

import os
import re
import shlex

import pytest
from cli_support import ROOT

PAGE = ROOT / "docs" / "SCREENS.md"
BLOCK = re.compile(r"    \$ penstock (plan [^\n]*)\n((?:    [^\n]*\n|\n(?=    [^$]))*)")


def screen(penstock, command):
    done = penstock(*shlex.split(command), cwd=ROOT, env={"COLUMNS": "80"})
    assert done.returncode in (0, 1, 3), done.stderr
    first = done.stdout.partition("\n\n")[0]
    return "".join(f"    {line}\n" for line in first.splitlines())


def test_the_page_shows_what_is_printed(penstock):
    text = PAGE.read_text()
    shown = BLOCK.findall(text)
    assert len(shown) >= 5
    made = BLOCK.sub(lambda block: f"    $ penstock {block[1]}\n{screen(penstock, block[1])}", text)
    if os.environ.get("PENSTOCK_WRITE_SCREENS"):
        PAGE.write_text(made)
        pytest.skip("the page has been written")
    assert made == text
