"""Ways to make an object and to change it: what a transaction must report, restore, or list as not watched.

Each entry is code for an object, and one or more statements that change it, as ``x``. `judged` makes the object, keeps
it at some place, changes it in a watched block or in a run, undoes that, and compares with what it was.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from typing import Any, Literal

import pandas as pd
import polars as pl

from archytas_nb.agent import Agent
from archytas_nb.loop.events import Diff, NotCovered
from archytas_nb.testing import ScriptedModel
from archytas_nb.undo.transaction import transaction

Names = dict[str, Any]
Verdict = Literal["restored", "said", "listed", "silent", "wrong", "unchanged"]
"""``said``: reported, and the undo says that it could not be restored."""

IMPORTS = """
import abc, argparse, array, ast, asyncio, bz2, calendar, cmd, codecs, collections, concurrent.futures, configparser
import contextlib, contextvars, copy, csv, ctypes, dataclasses, datetime as dt, decimal, difflib, email.message, enum
import fractions, functools, gettext, graphlib, hashlib, hmac, http.client, http.cookiejar, http.cookies, io
import ipaddress, itertools, json, logging, lzma, mmap, operator, pathlib, pickle, pprint, queue, random, re, reprlib, sched
import shlex, socket, sqlite3, statistics, string, struct, tempfile, textwrap, threading, timeit, traceback, types
import typing, unittest.mock as mock, urllib.request, uuid, weakref, xml.dom.minidom, xml.etree.ElementTree as ET
import zipfile, zlib
import numpy as np, pandas as pd, polars as pl
"""

LISTS = [
    "x.append(5)",
    "x.pop()",
    "x[0] = [9]",
    "x.reverse()",
    "x.clear()",
    "x.extend([None, 1])",
    "x[:] = []",
]
DICTS = [
    "x['new'] = 5",
    "x.pop('a')",
    "x['a'] = 7",
    "x['a'] = x.pop('a') + 0.5",
    "x.clear()",
    "x['b'].append(5)",
]
SETS = ["x.add(5)", "x.discard(1)", "x.clear()", "x.symmetric_difference_update({1, 77})"]
NOTE = ["x.note = [1]"]

CONTAINERS: dict[str, list[str]] = {
    "[1, [2], 'a']": [*LISTS, "x[1].append(3)", "x.sort(key=str, reverse=True)", "x.insert(0, x[1])", "del x[1]"],
    "collections.deque([1, [2], 'a'])": [*LISTS[:-1], "x.appendleft(1)", "x.rotate(1)", "x[1].append(5)"],
    "collections.deque([1, 2, 3], maxlen=3)": ["x.append(4)", "x.appendleft(4)"],
    "collections.UserList([1, [2]])": [*LISTS, "x.data = []"],
    "{'a': 1, 'b': [1], 3: None}": [*DICTS, "x.update(a=True)", "x.popitem()", "x.setdefault('c', [])"],
    "collections.OrderedDict(a=1, b=[1])": [*DICTS, "x.move_to_end('a')", *NOTE],
    "collections.defaultdict(list, a=1, b=[1])": [*DICTS, "x['missing']", "x.default_factory = dict"],
    "collections.Counter(a=1, c=2)": ["x.update('a')", "x.subtract('c')", "x.clear()", "x['q'] += 1", *NOTE],
    "collections.UserDict(a=1, b=[1])": [*DICTS, *NOTE],
    "collections.ChainMap({'a': 1, 'b': [1]}, {})": [*DICTS, "x.maps.append({})", *NOTE],
    "{1, 'a', (2, 3)}": SETS,
    "(1, [2], {'k': [3]})": ["x[1].append(5)", "x[2]['k'].clear()", "x[2].clear()"],
    "frozenset([collections.UserString('a')])": ["next(iter(x)).data = 'b'"],
    "types.SimpleNamespace(a=1, b=[2])": ["x.a = 2", "x.b.append(1)", "del x.a", "x.c = 5", "vars(x).clear()"],
    "types.MappingProxyType({'b': [1]})": ["x['b'].append(2)"],
    "collections.UserString('a')": ["x.data = 'b'", *NOTE],
    "array.array('d', [1, 2])": ["x.append(3)", "x[0] = 5"],
    "bytearray(b'abc')": ["x[0] = 5", "x.extend(b'x')", "x.clear()"],
    "memoryview(bytearray(b'abc'))": ["x[0] = 5"],
    "{'a': 1}.keys()": ["x.mapping"][:0],
    "slice(0, [1])": ["x.stop.append(2)"],
}  # fmt: skip

STDLIB: dict[str, list[str]] = {
    "random.Random(1)": ["x.random()", "x.seed(2)", *NOTE],
    "itertools.count()": ["next(x)"],
    "itertools.cycle([1, 2])": ["next(x)"],
    "iter([1, 2])": ["next(x)"],
    "iter({'a': 1})": ["next(x)"],
    "enumerate([1, 2])": ["next(x)"],
    "zip([1], [2])": ["next(x)"],
    "map(str, [1])": ["next(x)"],
    "filter(None, [1])": ["next(x)"],
    "reversed([1, 2])": ["next(x)"],
    "(i for i in range(3))": ["next(x)"],
    "itertools.chain([1], [2])": ["next(x)"],
    "io.StringIO('abc')": ["x.write('xyz')", "x.read()", "x.close()"],
    "io.BytesIO(b'abc')": ["x.write(b'xyz')", "x.seek(2)"],
    "tempfile.TemporaryFile()": ["x.write(b'a')"],
    "threading.Lock()": ["x.acquire()"],
    "threading.RLock()": ["x.acquire()"],
    "threading.Event()": ["x.set()"],
    "threading.Semaphore(2)": ["x.acquire()"],
    "threading.Condition()": ["x.note = 1"],
    "threading.Thread()": ["x.name = 'new'"],
    "threading.local()": ["x.a = 1"],
    "queue.Queue()": ["x.put(1)"],
    "queue.LifoQueue()": ["x.put(1)"],
    "queue.SimpleQueue()": ["x.put(1)"],
    "weakref.WeakValueDictionary()": ["x['a'] = logging"],
    "weakref.WeakSet()": ["x.add(logging.Handler)"],
    "types.ModuleType('probe')": ["x.a = 1"],
    "functools.partial(print, [1], a=[2])": ["x.args[0].append(1)", "x.keywords['a'].append(1)", "x.keywords['c'] = 1",
                                             "x.__setstate__((print, (), {}, {}))", *NOTE],
    "functools.lru_cache(len)": ["x('abc')", *NOTE],
    "functools.cmp_to_key(lambda a, b: 0)": ["x.obj = 1"][:0],
    "configparser.ConfigParser()": ["x['a'] = {'b': '1'}", "x.add_section('s')"],
    "argparse.ArgumentParser()": ["x.add_argument('--new')", "x.description = 'new'"],
    "argparse.Namespace(a=1)": ["x.a = 2", "x.b = 3"],
    "logging.Logger('probe')": ["x.setLevel(10)", "x.addHandler(logging.NullHandler())"],
    "logging.Formatter()": ["x.datefmt = 'new'"],
    "email.message.EmailMessage()": ["x['To'] = 'a'", "x.set_content('text')"],
    "http.cookies.SimpleCookie()": ["x['a'] = 'b'"],
    "http.cookiejar.CookieJar()": ["x.note = 1"],
    "http.client.HTTPConnection('localhost')": ["x.timeout = 5"],
    "urllib.request.Request('http://localhost')": ["x.add_header('A', 'b')"],
    "ET.Element('a')": ["x.append(ET.Element('b'))", "x.text = 'new'", "x.set('k', 'v')"],
    "ET.ElementTree(ET.Element('a'))": ["x.getroot().text = 'new'"],
    "xml.dom.minidom.parseString('<a/>')": ["x.documentElement.setAttribute('k', 'v')"],
    "json.JSONEncoder()": ["x.indent = 5"],
    "csv.writer(io.StringIO())": ["x.writerow([1])"],
    "csv.DictReader(io.StringIO('a\\n1'))": ["next(x)"],
    "decimal.Context()": ["x.prec = 5"],
    "calendar.TextCalendar()": ["x.setfirstweekday(3)"],
    "string.Template('$a')": ["x.template = 'b'"],
    "textwrap.TextWrapper()": ["x.width = 5"],
    "hashlib.sha256()": ["x.update(b'a')"],
    "hmac.new(b'k', b'a', 'sha256')": ["x.update(b'a')"],
    "zlib.compressobj()": ["x.compress(b'a')"],
    "bz2.BZ2Compressor()": ["x.compress(b'a')"],
    "lzma.LZMACompressor()": ["x.compress(b'a')"],
    "sqlite3.connect(':memory:')": ["x.execute('create table t (a)')"],
    "sqlite3.connect(':memory:').cursor()": ["x.arraysize = 5"],
    "socket.socket()": ["x.settimeout(5)", "x.close()"],
    "ast.parse('a = 1')": ["x.body.clear()", "x.body[0].targets[0].id = 'b'"],
    "traceback.TracebackException.from_exception(ValueError())": ["x.stack = None"],
    "contextvars.ContextVar('probe')": ["x.set(1)"],
    "contextlib.ExitStack()": ["x.callback(print)"],
    "asyncio.Event()": ["x.set()"],
    "asyncio.Queue()": ["x.put_nowait(1)"],
    "asyncio.Lock()": ["x._locked = True"],
    "concurrent.futures.Future()": ["x.set_result(1)"],
    "mock.Mock()": ["x.a = 1", "x.method(1)"],
    "mock.MagicMock()": ["x.a = 1"],
    "pprint.PrettyPrinter()": ["x._width = 5"],
    "reprlib.Repr()": ["x.maxlist = 1"],
    "graphlib.TopologicalSorter({1: [2]})": ["x.add(5, 6)"],
    "sched.scheduler()": ["x.enter(1, 1, print)"],
    "statistics.NormalDist(1, 2)": ["x._mu = 5"],
    "ipaddress.ip_network('10.0.0.0/8')": ["x._prefixlen = 9"],
    "difflib.SequenceMatcher(None, 'a', 'b')": ["x.set_seq1('c')"],
    "zipfile.ZipFile(io.BytesIO(), 'w')": ["x.writestr('a', b'b')"],
    "codecs.getincrementaldecoder('utf-8')()": ["x.decode(b'\\xc3')"],
    "gettext.NullTranslations()": ["x._info = 1"],
    "cmd.Cmd()": ["x.prompt = 'new'"],
    "shlex.shlex('a b')": ["x.get_token()"],
    "timeit.Timer()": ["x.note = 1"],
    "struct.Struct('i').iter_unpack(b'abcdefgh')": ["next(x)"],
    "ctypes.c_int(1)": ["x.value = 5"],
    "(ctypes.c_int * 3)()": ["x[0] = 5"],
    "mmap.mmap(-1, 10)": ["x.write(b'a')"],
    "pickle.Pickler(io.BytesIO())": ["x.dump([1])"],
    "ValueError('a', [1])": ["x.args = ('b',)", "x.args[1].append(1)", "x.add_note('n')", *NOTE],
    "KeyError('a')": ["x.__cause__ = ValueError()"],
    "logging.LogRecord('a', 1, 'b', 1, 'c', (), None)": ["x.msg = 'new'"],
    "operator.itemgetter(1)": [],
    "types.GenericAlias(list, (int,))": [],
    "typing.TypeVar('T')": [],
    "uuid.uuid4()": [],
    "weakref.ref(logging)": [],
    "sqlite3.Row": [],
    "logging.Handler": ["x.probe = 5"],
    "json": ["x.probe = 5"],
    "json.dumps": ["x.probe = 5"],
    "len.__self__": ["x.probe = 5"],
}  # fmt: skip

ARRAYS = ["x[0] = x[-1]", "x[:] = x[::-1].copy()", "x.flags.writeable = False", "x[1:][0] = x[0]"]
NUMPY: dict[str, list[str]] = {
    **{f"np.arange(6).astype({dtype!r})": [*ARRAYS, "x.shape = (2, 3)", "x += x.dtype.type(1)", "np.copyto(x, 0)"]
       for dtype in ("i1", "i2", "i4", "i8", "u1", "u4", "u8", "f2", "f4", "f8", "g", "c8", "c16", ">i4", ">f8")},
    **{f"np.array(['a', 'b', 'cd'], dtype={dtype!r})": ARRAYS for dtype in ("U2", "S2", "U5", "O")},
    "np.array(['a', 'b' * 40], dtype=np.dtypes.StringDType())": [*ARRAYS, "x[0] = 'z'", "x[1] = 'c' * 40"],
    "np.array(['a', None], dtype=np.dtypes.StringDType(na_object=None))": ["x[0] = None", "x[1] = 'b'"],
    "np.array([True, False])": ARRAYS,
    "np.array(['2024', 'NaT'], dtype='M8[D]')": [*ARRAYS, "x[1] = x[0]"],
    "np.array([1, 2], dtype='m8[s]')": ARRAYS,
    "np.zeros(3, dtype=[('a', 'i4'), ('b', 'f8')])": ["x['a'] = 1", "x[0] = (1, 2)", "x.dtype.names = ('c', 'd')"],
    "np.array([([1],)], dtype=[('a', 'O')])": ["x['a'][0].append(1)", "x['a'] = 5"],
    "np.array([[1], {'k': [1]}, None], dtype=object)": ["x[0].append(1)", "x[1]['k'].append(1)", "x[2] = 5"],
    "np.array(5.0)": ["x[()] = 6"],
    "np.zeros((3, 4), order='F')": ["x[1, 2] = 5", "x.T[0, 0] = 1", "x[:, 1] += 1", "x.resize((2, 6), refcheck=False)"],
    "np.zeros(10)[2:8:2]": ["x[0] = 5", "x.base[4] = 5"],
    "np.zeros((0, 3))": ["x.resize((2, 3), refcheck=False)"],
    "np.matrix([[1, 2]])": ["x[0, 0] = 5", *NOTE],
    "np.rec.array([(1, 2.0)], names='a,b')": ["x.a[0] = 5", "x['b'] = 7"],
    "np.ma.masked_array([1, 2, 3], [0, 1, 0])": ["x[0] = 5", "x.mask[0] = True", "x.fill_value = 7"],
    "np.random.default_rng(1)": ["x.random()", "x.bit_generator.advance(5)"],
    "np.random.RandomState(1)": ["x.rand()"],
    "np.random.PCG64(1)": ["x.advance(5)"],
    "np.random.SeedSequence(1)": ["x.spawn(1)"],
    "np.poly1d([1, 2])": ["x.coeffs[0] = 5", "x[3] = 1"],
    "np.polynomial.Polynomial([1, 2])": ["x.coef[0] = 5"],
    "np.vectorize(len)": ["x.otypes = 'd'"],
    "np.nditer(np.arange(3))": ["x.iternext()"],
    "np.arange(3).flat": ["next(x)"],
    "np.broadcast(np.arange(3), 1)": ["next(x)"],
    "np.dtype([('a', 'i4')])": ["x.names = ('b',)"],
    "np.zeros(1, dtype=[('a', 'i4')])[0]": ["x['a'] = 5"],
    "np.errstate(all='ignore')": [],
}  # fmt: skip

_SERIES = ["x.iloc[0] = x.iloc[2]", "x.name = 'new'", "x.index = [*'qrs']", "x.attrs['k'] = 1", "x.drop(1, inplace=True)",
           "x.array[0] = x.array[2]", "x.index.name = 'new'", "object.__setattr__(x, 'note', 1)"]  # fmt: skip
_PANDAS_DTYPES = {
    "int64": "[1, 2, 3]", "float64": "[1.5, 2, None]", "Int64": "[1, None, 3]", "Float64": "[1.5, None, 3]",
    "bool": "[True, True, False]", "boolean": "[True, None, False]", "string": "['a', None, 'c']", "object": "[[1], 'a', None]",
    "category": "['a', 'b', 'c']", "datetime64[ns]": "['2024', '2025', '2026']", "datetime64[s, UTC]": "['2024', '2025', '2026']",
    "timedelta64[ns]": "[1, 2, 3]", "period[D]": "['2024', '2025', '2026']", "str": "['a', None, 'c']", "uint8": "[1, 2, 3]",
    "complex128": "[1j, 2, 3]", "float32": "[1, 2, 3]",
}  # fmt: skip
_INDEX = ["x.name = 'new'", "object.__setattr__(x, 'probe', 5)"]
PANDAS: dict[str, list[str]] = {
    **{f"pd.Series({values}, dtype={dtype!r})": _SERIES for dtype, values in _PANDAS_DTYPES.items()},
    **{f"pd.DataFrame({{'c': pd.Series({values}, dtype={dtype!r}), 'n': [1, 2, 3]}})": [
        "x.iloc[0, 0] = x.iloc[2, 0]", "x['c'] = x['n'] + 5", "del x['c']", "x.columns = [*'qr']", "x.insert(0, 'new', 1)",
        "x.sort_values('n', ascending=False, inplace=True)", "x.loc[7] = x.loc[0]", "x['c'].array[0] = x['c'].array[2]",
        "x.attrs['k'] = 1", "x.rename(columns={'c': 'd'}, inplace=True)"] for dtype, values in _PANDAS_DTYPES.items()},
    "pd.Series([0, 0, 1], dtype='Sparse[int]')": ["x.name = 'new'", "x.index = [5, 6, 7]"],
    "pd.Series(pd.interval_range(0, 3))": ["x.iloc[0] = x.iloc[2]", "x.name = 'new'"],
    "pd.Series(pd.Categorical(['a', 'b']))": ["x.iloc[0] = 'b'", "x.array[0] = 'b'", "x.cat.categories.name = 'new'"],
    "pd.DataFrame({'a': [[1], {'k': [2]}]})": ["x.at[0, 'a'].append(5)", "x.at[1, 'a']['k'].append(5)", "x.at[0, 'a'] = 5"],
    "pd.DataFrame({'a': [1, 2]}, index=pd.MultiIndex.from_product([[1], ['x', 'y']]))": [
        "x.index.names = ['q', 'r']", "x.sort_index(ascending=False, inplace=True)", "x.loc[(1, 'x'), 'a'] = 9"],
    "pd.DataFrame([[1, 2]], columns=['a', 'a'])": ["x.iloc[0, 1] = 9", "x.columns = ['a', 'b']"],
    "pd.DataFrame()": ["x['a'] = [1]", "x.loc[0, 'b'] = 1"],
    "pd.Index([1, 2])": _INDEX,
    "pd.RangeIndex(3)": _INDEX,
    "pd.DatetimeIndex(['2024', '2025'])": [*_INDEX, "x.freq = None"][:2],
    "pd.MultiIndex.from_product([[1], ['x']])": ["x.names = ['a', 'b']"],
    "pd.CategoricalIndex(['a'])": _INDEX,
    "pd.Categorical(['a', 'b'])": ["x[0] = 'b'"],
    "pd.array([1, None])": ["x[0] = 5"],
    "pd.array(['a', None])": ["x[0] = 'b'"],
    "pd.arrays.SparseArray([0, 1])": ["x.fill_value = 5"],
    "pd.DataFrame({'a': [1, 1]}).groupby('a')": ["x.as_index = False"],
    "pd.Series([1, 2]).rolling(2)": ["x.min_periods = 1"],
    "pd.DateOffset(days=1)": [],
    "pd.CategoricalDtype(['a'])": NOTE,
    "pd.DatetimeTZDtype(tz='UTC')": NOTE,
    "pd.Timestamp('2024')": [],
}  # fmt: skip

_POLARS_DTYPES = {
    "pl.Int64": "[1, 2, None]", "pl.UInt8": "[1, 2, None]", "pl.Float64": "[1.5, 2.0, None]", "pl.Boolean": "[True, True, None]",
    "pl.String": "['a', 'b', None]", "pl.Date": "[dt.date(2024, 1, 1), dt.date(2025, 1, 1), None]", "pl.Categorical": "['a', 'b', None]",
    "pl.Datetime": "[dt.datetime(2024, 1, 1), dt.datetime(2025, 1, 1), None]", "pl.Duration": "[dt.timedelta(1), dt.timedelta(2), None]",
    "pl.Time": "[dt.time(1), dt.time(2), None]", "pl.Decimal(10, 2)": "[decimal.Decimal(1), decimal.Decimal(2), None]",
    "pl.Binary": "[b'a', b'b', None]", "pl.List(pl.Int64)": "[[1], [], None]", "pl.List(pl.List(pl.String))": "[[['a']], [[]], None]",
    "pl.Array(pl.Int64, 2)": "[[1, 2], [3, 4], None]", "pl.Struct({'a': pl.Int64})": "[{'a': 1}, {'a': None}, None]",
    "pl.List(pl.Struct({'a': pl.String}))": "[[{'a': 'x'}], [], None]", "pl.Enum(['a', 'b'])": "['a', 'b', None]",
}  # fmt: skip
POLARS: dict[str, list[str]] = {
    **{f"pl.Series('s', {values}, dtype={dtype})": [
        "x.append(x)", "x.rename('new'), setattr(x, '_s', x.reverse()._s)", "x.note = [1]", "x.extend(x.clone())"]
       for dtype, values in _POLARS_DTYPES.items()},
    **{f"pl.DataFrame({{'c': pl.Series({values}, dtype={dtype}), 'n': [1, 2, 3]}})": [
        "x.replace_column(0, x['c'].reverse())", "x.drop_in_place('c')", "x.insert_column(0, x['n'].alias('new'))", "x.extend(x.clone())",
        "x.columns = [*'qr']", "x.replace_column(0, x['c'].shift(1))", "x[0, 'n'] = 9", *NOTE] for dtype, values in _POLARS_DTYPES.items()},
    "pl.DataFrame({'o': pl.Series([object()], dtype=pl.Object)})": ["x.insert_column(0, pl.Series('n', [1]))"],
    "pl.DataFrame()": ["x.insert_column(0, pl.Series('n', [], dtype=pl.Int64))"],
    "pl.LazyFrame({'a': [1]})": NOTE,
    "pl.col('a')": NOTE,
    "pl.Int64()": NOTE,
    "pl.Config()": [],
}  # fmt: skip

_BASES = {
    "object": "()", "list": "([1, [2]])", "dict": "(a=1, b=[1])", "set": "([1])", "tuple": "([1, [2]])", "frozenset": "([1])",
    "str": "('a')", "int": "(1)", "float": "(1.5)", "complex": "(1j)", "bytes": "(b'a')", "bytearray": "(b'a')",
    "collections.deque": "([1, [2]])", "collections.OrderedDict": "(a=1)", "collections.defaultdict": "(list, a=1)",
    "collections.Counter": "('ab')", "collections.UserDict": "(a=1)", "collections.UserList": "([1])", "collections.ChainMap": "({})",
    "dt.datetime": "(2024, 1, 1)", "dt.date": "(2024, 1, 1)", "dt.timedelta": "(1)", "dt.time": "(1)", "dt.tzinfo": "()",
    "decimal.Decimal": "(1)", "fractions.Fraction": "(1, 3)", "pathlib.PurePosixPath": "('a')",
    "Exception": "(1)", "random.Random": "(1)", "threading.Thread": "()", "io.StringIO": "()", "types.SimpleNamespace": "(a=1)",
    "types.ModuleType": "('probe')", "functools.partial": "(print)", "property": "()", "abc.ABC": "()", "np.ndarray": "((2,))",
    "np.float64": "(1)", "pd.DataFrame": "({'a': [1]})", "pd.Series": "([1])", "pd.offsets.Day": "()", "pl.DataFrame": "({'a': [1]})",
    "pl.Series": "([1])", "logging.Handler": "()", "json.JSONEncoder": "()", "typing.Generic[typing.TypeVar('T')]": "()", "contextlib.ExitStack": "()",
    "ast.NodeVisitor": "()", "queue.Queue": "()", "configparser.ConfigParser": "()", "weakref.WeakValueDictionary": "()",
    "array.array": "('d')", "memoryview": "(b'a')", "sqlite3.Connection": "(':memory:')", "collections.abc.Mapping": "()",
}  # fmt: skip


def _class(base: str, body: str = "pass") -> str:
    return f"class C({base}):\n    {body}\n"


OWN: dict[str, list[str]] = {
    **{f"{_class(base)}C{arguments}": ["x.note = [1]", "type(x).shared = [1]", "setattr(type(x), 'method', lambda self: 1)"]
       for base, arguments in _BASES.items() if base not in ("memoryview", "collections.abc.Mapping")},
    f"{_class('list', 'def __iter__(self): return iter(())')}C([1, 2])": ["x.append(5)", "x.clear()"],
    f"{_class('dict', 'def keys(self): return []')}C(a=1)": ["x['b'] = 1", "x.clear()"],
    f"{_class('set', 'def __iter__(self): return iter(())')}C([1, 2])": ["x.add(5)", "x.clear()"],
    f"{_class('list', '__slots__ = (chr(97),)')}C([1])": ["x.a = 5", "x.append(1)"],
    f"{_class('object', '__slots__ = (chr(97), chr(98))')}C()": ["x.a = 5", "x.b = [1]"],
    f"{_class('object', 'shared = [1]')}C": ["x.shared.append(1)", "x.new = 1", "x.__init__ = lambda self: None", "del x.shared"],
    "@dataclasses.dataclass\nclass C:\n    a: list\nC([1])": ["x.a.append(1)", "x.a = 5", *NOTE],
    "@dataclasses.dataclass(frozen=True)\nclass C:\n    a: list\nC([1])": ["x.a.append(1)", "object.__setattr__(x, 'a', 5)"],
    "@dataclasses.dataclass(slots=True)\nclass C:\n    a: list\nC([1])": ["x.a.append(1)", "x.a = 5"],
    "class C(typing.NamedTuple):\n    a: list\nC([1])": ["x.a.append(1)"],
    "class C(typing.TypedDict):\n    a: list\nC(a=[1])": ["x['a'].append(1)", "x['a'] = 5"],
    "class C(enum.Enum):\n    A = [1]\nC.A": ["x.value.append(2)", "x.note = 1", "x._value_ = 5"],
    "class C(enum.IntEnum):\n    A = 1\nC.A": ["x.note = 1"],
    "class C(enum.StrEnum):\n    A = 'a'\nC.A": ["x.note = 1"],
    "class C(enum.Flag):\n    A = 1\nC.A": ["x.note = 1"],
    "class C(enum.Enum):\n    A = 1\nC": ["x.A.note = 1", "type.__setattr__(x, 'new', 1)"],
    "class M(type):\n    pass\nclass C(metaclass=M):\n    pass\nC": ["x.a = 1"],
    "class M(type):\n    pass\nclass C(metaclass=M):\n    pass\nC()": ["type(x).a = 1", "x.a = 1"],
    "def f(a=[1], *, b=[2]): pass\nf": ["x.__defaults__[0].append(1)", "x.__kwdefaults__['b'].append(1)", "x.note = 1",
                                        "x.__defaults__ = None", "x.__code__ = (lambda a, b: 1).__code__"],
    "def o(n):\n    def f(): return n\n    return f\no([1])": ["x().append(1)", "x.__closure__[0].cell_contents = 5"],
    "class C:\n    def f(self): pass\nC().f": ["x.__self__.a = 1", "x.__func__.note = 1"],
    "class C:\n    @classmethod\n    def f(cls): pass\nC.f": ["x.__self__.a = 1"],
    "class C:\n    @staticmethod\n    def f(n=[1]): pass\nC.f": ["x.__defaults__[0].append(1)"],
    "class C:\n    def __getattribute__(self, name): raise RuntimeError\nC()": ["object.__setattr__(x, 'a', 1)"],
    "class C:\n    def __eq__(self, other): return True\n    __hash__ = None\nC()": ["x.a = 1"],
    "class C:\n    def __setattr__(self, name, value): raise TypeError\nC()": ["x.__dict__['a'] = 1"],
    "async def f(n=[1]): pass\nf": ["x.__defaults__[0].append(1)"],
    "lambda n=[1]: n": ["x().append(1)"],
    "functools.wraps(len)(lambda n=[1]: n)": ["x().append(1)"],
    "functools.singledispatch(lambda n: n)": ["x.register(int, lambda n: 1)", "x.note = 1"],
}  # fmt: skip

OTHERS: dict[str, list[str]] = {
    "__import__('matplotlib.figure').figure.Figure()": ["x.set_size_inches(1, 1)", "x.add_subplot()"],
    "__import__('matplotlib.figure').figure.Figure().add_subplot()": ["x.plot([1, 2])", "x.set_title('new')"],
    "__import__('matplotlib.lines').lines.Line2D([1], [2])": ["x.set_color('red')"],
    "__import__('matplotlib.patches').patches.Rectangle((0, 0), 1, 1)": ["x.set_width(5)"],
    "__import__('matplotlib.colors').colors.Normalize(0, 1)": ["x.vmin = 5"],
    "__import__('matplotlib.colors').colors.ListedColormap(['red'])": ["x.name = 'new'"],
    "__import__('PIL.Image').Image.new('L', (2, 2))": ["x.putpixel((0, 0), 5)"],
    "__import__('attr').make_class('C', ['a'])([1])": ["x.a.append(1)", "x.a = 5"],
    "__import__('pydantic').create_model('C', a=(list, ...))(a=[1])": ["x.a.append(1)", "x.a = 5"],
    "__import__('ipywidgets').IntSlider()": ["x.value = 5"],
}  # fmt: skip

TABLES = {
    "containers": CONTAINERS, "stdlib": STDLIB, "numpy": NUMPY, "pandas": PANDAS, "polars": POLARS, "own": OWN, "others": OTHERS,
}  # fmt: skip

CASES = [
    (make, change)
    for table in TABLES.values()
    for make, changes in table.items()
    for change in changes
]

# Where the object is kept, and how it is taken from there.
PLACES = {
    "a variable": ("kept = x", "kept"),
    "a list": ("kept = [0, x]", "kept[1]"),
    "an attribute": ("kept = types.SimpleNamespace(a={'k': x})", "kept.a['k']"),
    "a closure": ("kept = (lambda held: lambda: held)(x)", "kept()"),
}


# ── the judge ─────────────────────────────────────────────────────────────────────────────────────


def defined(make: str, place: str, imports: str = IMPORTS) -> Names:
    """A namespace in which the object is kept at a place, and nowhere else."""
    names: Names = {"__name__": "__main__"}
    exec(imports, names)
    *before, last = make.rsplit("\n", 1)
    exec("\n".join(before), names)
    names["x"] = eval(last, names)
    exec(PLACES[place][0], names)
    for name in ("x", "C", "M", "f", "o"):
        names.pop(name, None)
    return names


def state(value: Any) -> Any:
    """The state of an object, without this package: its pickle, or else its repr and attributes."""
    if issubclass(type(value), (pd.DataFrame, pd.Series, pl.DataFrame, pl.Series)):
        return _of_table(value)
    if type(value) is set:
        return frozenset(map(state, value))
    try:
        buffer = io.BytesIO()
        pickler = pickle.Pickler(buffer)
        pickler.fast = True
        pickler.dump(value)
        return buffer.getvalue()
    except Exception:
        return _shown(value, 0)


def _of_table(value: Any) -> Any:
    """The data of a table: pickles of pandas contain caches, and polars makes new ones."""
    library = pd if isinstance(value, (pd.DataFrame, pd.Series)) else pl
    hidden = {
        "_mgr",
        "_attrs",
        "_flags",
        "_item_cache",
        "_s",
        "_df",
        "_name",
        "_cacher",
        "_is_copy",
    }
    own = {name: state(each) for name, each in vars(value).items() if name not in hidden}
    own |= _of_class(value) or {}
    if isinstance(value, library.DataFrame):
        columns = [
            value.iloc[:, i] if library is pd else value.to_series(i) for i in range(value.shape[1])
        ]
    else:
        columns = [value]
    found: list[Any] = [(str(each.name), str(each.dtype), repr(each.to_list())) for each in columns]
    if library is pd:
        axes = [
            (list(axis), list(axis.names), str(axis.dtype), str(getattr(axis, "freq", "")))
            for axis in value.axes
        ]
        found += [repr(axes), repr(value.attrs), str(value.flags)]
        found += [
            repr(list(each.cat.categories.names)) for each in columns if each.dtype == "category"
        ]
    return found, own


def _shown(value: Any, depth: int) -> Any:
    if depth > 3:
        return id(value)
    found: list[Any] = [id(type(value))]
    for read in (repr, _values, _attributes, _of_class, _of_function):
        try:
            found.append(read(value))
        except Exception:
            found.append(None)
    parts = [each for each in found if isinstance(each, dict)]
    inner = [(str(key), _shown(each, depth + 1)) for part in parts for key, each in part.items()]
    return [each for each in found if not isinstance(each, dict)], inner


def _values(value: Any) -> Any:
    base = next(each for each in (list, tuple, dict, set) if isinstance(value, each))
    return dict(enumerate(base.__iter__(value)))


def _attributes(value: Any) -> Any:
    own = {} if isinstance(value, type) else dict(object.__getattribute__(value, "__dict__"))
    slots = [
        n for c in type(value).__mro__ for n in getattr(c, "__slots__", ()) if isinstance(n, str)
    ]
    return own | {n: object.__getattribute__(value, n) for n in slots if hasattr(value, n)}


def _of_class(value: Any) -> Any:
    cls = value if isinstance(value, type) else type(value)
    return (
        {name: each for name, each in vars(cls).items() if not name.startswith("__")}
        if cls.__module__ == "__main__"
        else None
    )


def _of_function(value: Any) -> Any:
    function = getattr(value, "__func__", value)
    cells = {i: each.cell_contents for i, each in enumerate(function.__closure__ or ())}
    held = {"self": value.__self__} if hasattr(value, "__self__") else {}
    return {
        "d": function.__defaults__,
        "k": function.__kwdefaults__,
        "code": function.__code__,
        **vars(function),
        **cells,
        **held,
    }


def judged(make: str, change: str, place: str, way: str, imports: str = IMPORTS) -> Verdict:
    """The verdict about a change: see `Verdict`."""
    names = defined(make, place, imports)
    take = PLACES[place][1]
    body = "\n".join(f"    {line}" for line in change.split("\n"))
    exec(f"def change(x):\n{body}\n    return 0\ndef take(): return {take}", names)
    with transaction(namespace=names):  # what Python makes when an object is first read
        kept = names["take"]()
    before = state(kept)
    diff, undo = _transaction(names) if way == "transaction" else _run(names)
    after = state(names["take"]())
    notes = undo()
    is_back = state(names["take"]()) == before
    reported = any(re.match(r"(kept|take|change)\b", each.name) for each in diff.changes)
    names_of_it = {name for name, each in names.items() if each is kept} | {"kept"}
    listed = any(re.split(r"\W", each.name)[0] in names_of_it for each in diff.not_watched)
    if reported:
        if is_back:
            return "restored"
        return "said" if notes or listed or diff.not_kept else "wrong"
    if listed:
        return "listed"
    return "unchanged" if after == before else "silent"


def _transaction(names: Names) -> tuple[Diff, Callable[[], tuple[NotCovered, ...]]]:
    with transaction(namespace=names) as t:
        names["change"](names["take"]())
    return t.diff, t.undo


def _run(names: Names) -> tuple[Diff, Callable[[], tuple[NotCovered, ...]]]:
    model = ScriptedModel(("python", {"code": "change(take())"}), ("final_answer", "ok"))
    run = Agent([], model, namespace=names, python="undoable", context="none").run("go")
    assert run.calls[0][1].status == "done", run.calls[0][1].text
    return run.diff, run.undo
