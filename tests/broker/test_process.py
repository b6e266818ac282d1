"""A node as the whole work of a process."""

import subprocess
import sys

SAYS = """
import sys
from broker import process
from config.model import Site

async def says(site, read):
    print(sys.getswitchinterval())
    return 0

process._run = says
sys.exit(process.run_node(Site(name="hq", tree="t")))
"""


def test_a_thread_waits_a_millisecond_for_the_interpreter_and_not_five():
    done = subprocess.run([sys.executable, "-c", SAYS], capture_output=True, text=True, check=True)
    assert float(done.stdout) == 0.001
