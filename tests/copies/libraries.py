"""Libraries and kinds of objects: what the kernel has used before, and a program on it."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A kind of object.

    Attributes:
        setup: What ran in the kernel, thread pools included.
        program: What a copy runs on it.
        result: The value of its last statement, as text; None where a message and a fork may differ or refuse.
        modules: What must be installed.
    """

    setup: str
    program: str
    result: str | None
    modules: tuple[str, ...] = ()


KINDS = {
    "numbers": Kind("a, b = 2**70, 1.5", "a + b > 0", "True"),
    "texts": Kind("t = 'ä' * 10**6", "len(t)", "1000000"),
    "nested": Kind("n = {'a': [1, (2, {3})]}", "n['a'][1]", "(2, {3})"),
    "function": Kind("k = 3\ndef f(x): return x * k", "f(2)", "6"),
    "lambda": Kind("g = lambda x: x + 1", "g(1)", "2"),
    "closure": Kind("def make(n):\n    return lambda: n\nh = make(7)", "h()", "7"),
    "recursive function": Kind("def fact(n): return 1 if n < 2 else n * fact(n - 1)", "fact(5)", "120"),
    "class": Kind("class P:\n    def __init__(self, x): self.x = x\n    def double(self): return 2 * self.x\np = P(4)", "p.double()", "8"),
    "class of a class": Kind("class A:\n    n = 1\nclass B(A): pass\nb = B()", "isinstance(b, A) and b.n", "1"),
    "dataclass": Kind("import dataclasses\n@dataclasses.dataclass\nclass D:\n    x: int\nd = D(5)", "d", "D(x=5)"),
    "enum": Kind("import enum\nclass E(enum.Enum):\n    A = 1\ne = E.A", "e is E.A", "True"),
    "named tuple": Kind("from typing import NamedTuple\nclass N(NamedTuple):\n    x: int\nn = N(1)", "n.x", "1"),
    "partial": Kind("from functools import partial\nq = partial(pow, 2)", "q(3)", "8"),
    "cached function": Kind("from functools import lru_cache\n@lru_cache\ndef c(x): return x + 1\nc(1)", "c(1)", "2"),
    "generator": Kind("gen = (i for i in range(5))\nnext(gen)", "next(gen)", "1"),
    "lock": Kind("import threading\nlock = threading.Lock()\nlock.acquire()", "lock.locked()", "True"),
    "thread": Kind("import threading\nstop = threading.Event()\nth = threading.Thread(target=stop.wait, daemon=True)\nth.start()", "th.is_alive()", "False"),
    "open file": Kind("import tempfile\nfile = open(__import__('sys').executable, 'rb')\nfile.read(2)", "file.read(2)", None),
    "written file": Kind("import io\ntext = io.StringIO('x')", "text.read()", "'x'"),
    "sqlite connection": Kind("import sqlite3\ndb = sqlite3.connect(':memory:')\ndb.execute('create table t(a)')\ndb.execute('insert into t values (4)')", "db.execute('select a from t').fetchall()", "[(4,)]"),
    "cursor": Kind("import sqlite3\ncur = sqlite3.connect(':memory:').execute('select 1')", "cur.fetchone()", "(1,)"),
    "module": Kind("import json", "json.dumps([1])", "'[1]'"),
    "pattern": Kind("import re\npat = re.compile('a+')", "pat.findall('baab')", "['aa']"),
    "socket pair": Kind("import socket\nx, y = socket.socketpair()", "x.fileno() > 0", "True"),
    "thread pool": Kind("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(2)\npool.submit(int).result()", "with ThreadPoolExecutor(1) as own: r = own.submit(int).result()\nr", "0"),
    "weak reference": Kind("import weakref\nclass W: pass\nobj = W()\nref = weakref.ref(obj)", "ref() is obj", None),
    "exception": Kind("err = ValueError('bad')", "err", "ValueError('bad')"),
    "decimals": Kind("import decimal, fractions, datetime, uuid, pathlib\nvs = [decimal.Decimal('1.5'), fractions.Fraction(1, 3), datetime.date(2020, 1, 2)]", "vs", "[Decimal('1.5'), Fraction(1, 3), datetime.date(2020, 1, 2)]"),
    "numpy": Kind("import numpy as np\nm = np.random.rand(400, 400)\nnp.linalg.svd(m)", "np.linalg.svd(m)[1].shape", "(400,)", ("numpy",)),
    "numpy generator": Kind("import numpy as np\nrng = np.random.default_rng(1)", "rng.integers(1, 2)", "np.int64(1)", ("numpy",)),
    "pandas": Kind("import pandas as pd\ndf = pd.DataFrame({'g': list('ab') * 1000, 'x': range(2000)})\ndf.groupby('g').x.mean()", "df.groupby('g').x.sum().tolist()", "[999000, 1000000]", ("pandas",)),
    "pandas with categories and zones": Kind("import pandas as pd\ndf = pd.DataFrame({'c': pd.Categorical(['a', 'b']), 't': pd.date_range('2020', periods=2, tz='UTC'), 'n': pd.array([1, None], dtype='Int64')})", "df['n'].isna().sum()", "np.int64(1)", ("pandas",)),
    "pandas with Arrow": Kind("import pandas as pd\ndf = pd.DataFrame({'a': pd.array([1, 2], dtype='int64[pyarrow]')})\ndf.a.sum()", "int(df.a.sum())", "3", ("pandas", "pyarrow")),
    "pandas query": Kind("import pandas as pd\ndf = pd.DataFrame({'x': range(9)})\nlimit = 5", "len(df.query('x > @limit'))", "3", ("pandas",)),
    "polars": Kind("import polars as pl\nd = pl.DataFrame({'a': [1, 1, 2]})\nd.group_by('a').len()", "d.group_by('a').len().height", "2", ("polars",)),
    "polars lazy": Kind("import polars as pl\nlazy = pl.DataFrame({'a': [1, 2]}).lazy()\nlazy.collect()", "lazy.collect().height", "2", ("polars",)),
    "pyarrow": Kind("import pyarrow as pa, pyarrow.compute as pc\nta = pa.table({'a': list(range(1000))})\npc.sum(ta['a'])", "pc.sum(ta['a']).as_py()", "499500", ("pyarrow",)),
    "duckdb": Kind("import duckdb\ncon = duckdb.connect()\ncon.sql('create table t as select range a from range(10)')\ncon.sql('select sum(a) from t').fetchall()", "con.sql('select sum(a) from t').fetchall()", None, ("duckdb",)),
    "matplotlib": Kind("import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2])", "len(ax.lines)", "1", ("matplotlib",)),
    "dask": Kind("import dask.array as da\nar = da.ones((100, 100), chunks=50)\nar.sum().compute()", "float(ar.sum().compute())", "10000.0", ("dask", "numpy")),
    "geopandas": Kind("import geopandas as gpd, shapely\ngdf = gpd.GeoDataFrame({'a': [1]}, geometry=[shapely.Point(0, 0).buffer(1)])\ngdf.area", "len(gdf.area)", "1", ("geopandas",)),
    "scipy": Kind("import scipy.stats as st, scipy.sparse as sp\nmat = sp.eye(5).tocsr()\nst.ttest_ind([1, 2, 3], [2, 3, 4])", "float(mat.sum())", "5.0", ("scipy",)),
    "statsmodels": Kind("import numpy as np, statsmodels.api as sm\nfit = sm.OLS(np.arange(9.0), sm.add_constant(np.arange(9.0) ** 2)).fit()", "fit.params.shape", "(2,)", ("statsmodels",)),
    "scikit-learn with OpenMP": Kind("import numpy as np\nfrom sklearn.cluster import KMeans\nX = np.random.default_rng(0).random((3000, 4))\nKMeans(3, n_init=1).fit(X)", "KMeans(3, n_init=1).fit(X).cluster_centers_.shape", "(3, 4)", ("sklearn",)),
    "scikit-learn pipeline": Kind("import numpy as np\nfrom sklearn.ensemble import HistGradientBoostingRegressor as H\nfrom sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\nX = np.random.default_rng(0).random((500, 3))\npipe = make_pipeline(StandardScaler(), H(max_iter=3)).fit(X, X[:, 0])", "pipe.predict(X).shape", "(500,)", ("sklearn",)),
    "scikit-learn with joblib": Kind("import numpy as np\nfrom sklearn.ensemble import RandomForestClassifier as R\nX = np.random.default_rng(0).random((200, 3))\nR(10, n_jobs=2).fit(X, X[:, 0] > 0.5)", "R(10, n_jobs=2).fit(X, X[:, 0] > 0.5).score(X, X[:, 0] > 0.5) > 0.5", "True", ("sklearn",)),
    "joblib": Kind("import joblib\njoblib.Parallel(2)(joblib.delayed(abs)(i) for i in range(4))", "joblib.Parallel(2)(joblib.delayed(abs)(-i) for i in range(4))", "[0, 1, 2, 3]", ("joblib",)),
    "multiprocessing locks": Kind("import multiprocessing as mp\nlo, va = mp.Lock(), mp.Value('i', 3)", "from multiprocessing.pool import ThreadPool\nwith mp.RLock(), mp.Semaphore(2), ThreadPool(2) as po: r = po.map(abs, [-1, 2])\nr", "[1, 2]"),
    "lightgbm": Kind("import numpy as np, lightgbm as lgb\nX = np.random.default_rng(0).random((500, 3))\nmod = lgb.LGBMRegressor(n_estimators=3, verbose=-1).fit(X, X[:, 0])", "mod.predict(X).shape", "(500,)", ("lightgbm",)),
    "xgboost": Kind("import numpy as np, xgboost as xgb\nX = np.random.default_rng(0).random((500, 3))\nmod = xgb.XGBRegressor(n_estimators=3).fit(X, X[:, 0])", "mod.predict(X).shape", "(500,)", ("xgboost",)),
    "networkx": Kind("import networkx as nx\nG = nx.path_graph(5)", "nx.shortest_path_length(G, 0, 4)", "4", ("networkx",)),
    "xarray": Kind("import xarray as xr, numpy as np\nar = xr.DataArray(np.ones((2, 3)), dims=('a', 'b'))", "float(ar.sum())", "6.0", ("xarray",)),
    "pillow": Kind("from PIL import Image\nim = Image.new('RGB', (4, 5))", "im.resize((2, 2)).size", "(2, 2)", ("PIL",)),
    "asyncio": Kind("import asyncio\nasync def co(): return 3", "await co()", "3"),
    "pydantic": Kind("import pydantic\nclass M(pydantic.BaseModel):\n    x: int\nm = M(x=1)", "m.x", "1", ("pydantic",)),
    "narwhals": Kind("import pandas as pd, narwhals as nw\nfr = nw.from_native(pd.DataFrame({'a': [1]}))", "fr.shape", "(1, 1)", ("narwhals", "pandas")),
    "palmerpenguins": Kind("import palmerpenguins\npe = palmerpenguins.load_penguins()", "len(pe)", "344", ("palmerpenguins",)),
}  # fmt: skip
