"""What holds for every test: no server of the machine that they run on takes part in them."""

import os

os.environ["ARCHYTAS_NB_DISCOVER"] = "0"  # for kernels and other processes that a test starts, too
