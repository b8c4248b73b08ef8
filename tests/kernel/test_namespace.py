"""The live namespace is the one that the user sees, and looking for it imports nothing."""

import subprocess
import sys


def test_without_ipython_it_is_that_of_the_script() -> None:
    code = (
        "import sys\nfrom archytas_nb.kernel import current_shell, live_namespace\nx = 3\n"
        "print(live_namespace()['x'], current_shell(), 'IPython' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["3", "None", "False"]


def test_in_ipython_it_is_the_shells_own_and_no_copy() -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as S\n"
        "from archytas_nb.kernel import current_shell, live_namespace\n"
        "s = S.instance(); live_namespace()['y'] = 4\n"
        "print(s.user_ns['y'], current_shell() is s)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4", "True"]
