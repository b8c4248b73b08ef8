"""What holds for every test: no server of the machine takes part in it, and Ctrl-C is heard."""

import os
import signal

os.environ["ARCHYTAS_NB_DISCOVER"] = "0"  # for kernels and other processes that a test starts, too

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell starts what runs in its background deaf to Ctrl-C, and all that this starts would be deaf as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)
