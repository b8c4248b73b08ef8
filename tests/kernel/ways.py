"""Ways in which code can call a function, composed of how it gets the function, how it calls it, and from where.

A place for the function is ``F``, one for the way that calls it ``WAY``. The code runs in a namespace made by `SETUP`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

SETUP = '''
import abc, ast, asyncio, atexit, builtins, codecs, collections, concurrent.futures, contextlib, copy, dataclasses, enum
import functools, gc, heapq, importlib, inspect, io, itertools, json, logging, multiprocessing.pool, operator, pickle
import pprint, queue, random, re, signal, string, sys, threading, timeit, traceback, types, typing, unittest.mock
import weakref
import numpy as np
import pandas as pd
import polars as pl

def drop(table: object = "x") -> str:
    """Drop a table.

    Args:
        table: The table.
    """
    ran.append(table)
    return "dropped"

fs = [drop]
handlers = {"a": drop}
df = pd.DataFrame({"a": ["x"]})
part = functools.partial(drop, "x")
def closed(f=drop):
    return lambda: f
by_closure = closed()
def by_default(f=drop): return f
def own(table='x'): return drop(table)
class Ops:
    act = staticmethod(drop)
    def __init__(self): self.f = drop
    @property
    def prop(self): return self.f
    def __getitem__(self, key): return self.f
ops = Ops()
space = types.SimpleNamespace(deep=types.SimpleNamespace(f=drop))
'''

HOLDERS = {
    "name": "drop",
    "list": "fs[0]",
    "dict": "handlers['a']",
    "attribute": "ops.f",
    "static method": "Ops.act",
    "property": "ops.prop",
    "item of an object": "ops['any']",
    "closure": "by_closure()",
    "cell of a closure": "by_closure.__closure__[0].cell_contents",
    "default": "by_default.__defaults__[0]",
    "partial's function": "part.func",
    "globals": "globals()['dr' + 'op']",
    "globals of a function": "own.__globals__['drop']",
    "nested attribute": "operator.attrgetter('deep.f')(space)",
    "copy of a list": "copy.deepcopy(fs).pop()",
    "copy of the function": "types.FunctionType(drop.__code__, globals(), 'drop', drop.__defaults__)",
    "wrapped": "functools.wraps(drop)(lambda table='x': drop(table)).__wrapped__",
    "referrers": "next(each for each in gc.get_referents(fs))",
    "a name that is bound": "(bound := fs[0])",
    "the person's function": "own",
    "the person's partial of it": "functools.partial(own)",
}

WAYS = {
    "call": "F('x')",
    "keyword": "F(table='x')",
    "unpacked": "F(*['x'], **{})",
    "map": "list(map(F, ['x']))",
    "filter": "list(filter(F, ['x']))",
    "starmap": "list(itertools.starmap(F, [('x',)]))",
    "accumulate": "list(itertools.accumulate(['x', 'y'], lambda _, t: F(t)))",
    "takewhile": "list(itertools.takewhile(F, ['x']))",
    "groupby": "list(itertools.groupby(['x'], F))",
    "sorted": "sorted(['x'], key=F)",
    "list.sort": "['x'].sort(key=F)",
    "max": "max(['x', 'y'], key=F)",
    "heapq": "heapq.nlargest(2, ['x', 'y'], key=F)",
    "reduce": "functools.reduce(lambda t, f: f(t), [F], 'x')",
    "partial": "functools.partial(F, 'x')()",
    "partialmethod": "type('C', (), {'m': functools.partialmethod(lambda self, f: f('x'), F)})().m()",
    "singledispatch": "functools.singledispatch(F)('x')",
    "cached": "functools.cache(F)('x')",
    "cached property": "type('C', (), {'p': functools.cached_property(lambda self: F('x'))})().p",
    "operator.call": "operator.call(F, 'x')",
    "methodcaller": "operator.methodcaller('__call__', 'x')(F)",
    "__call__": "F.__call__('x')",
    "type's __call__": "type(F).__call__(F, 'x')",
    "__get__": "types.MethodType(F, 'x')()",
    "descriptor": "F.__get__('x')() if hasattr(F, '__get__') else F('x')",
    "object.__getattribute__": "object.__getattribute__(F, '__call__')('x')",
    "re.sub": "re.sub('x', lambda m: F(m[0]), 'x')",
    "re.sub itself": "re.sub('x', F, 'x')",
    "re.Scanner": "re.Scanner([('x', lambda s, t: F(t))]).scan('x')",
    "json hook": "json.loads('{\"a\": 1}', object_hook=F)",
    "json pairs": "json.loads('{\"a\": 1}', object_pairs_hook=F)",
    "json constant": "json.loads('[NaN]', parse_constant=F)",
    "json default": "json.dumps(object, default=F)",
    "defaultdict": "collections.defaultdict(F)['x']",
    "__missing__": "type('D', (dict,), {'__missing__': lambda s, k: F(k)})()['x']",
    "__getattr__": "type('C', (), {'__getattr__': lambda s, k: F(k)})().x",
    "__class_getitem__": "type('C', (), {'__class_getitem__': classmethod(lambda c, k: F(k))})['x']",
    "__set_name__": "type('C', (), {'a': type('D', (), {'__set_name__': lambda s, o, n: F(n)})()})",
    "__init_subclass__": "type('E', (type('C', (), {'__init_subclass__': classmethod(lambda c: F('x'))}),), {})",
    "metaclass": "type('M', (type,), {'__call__': lambda c: F('x')})('C', (), {})()",
    "__prepare__": "types.prepare_class('C', (type('B', (), {}),), {'metaclass': type('M', (type,), "
    "{'__prepare__': classmethod(lambda m, n, b: F('x') and {})})})",
    "__new__": "type('C', (), {'__new__': lambda c: F('x')})()",
    "__init__": "type('C', (), {'__init__': lambda s: F('x') and None})()",
    "__repr__": "repr(type('C', (), {'__repr__': lambda s: F('x')})())",
    "__format__": "f\"{type('C', (), {'__format__': lambda s, f: F('x')})()}\"",
    "__bool__": "bool(type('C', (), {'__bool__': lambda s: F('x') == 'dropped'})())",
    "__eq__": "[type('C', (), {'__eq__': lambda s, o: F('x')})()].index(5)",
    "__hash__": "{type('C', (), {'__hash__': lambda s: len(F('x'))})()}",
    "__iter__": "[*type('C', (), {'__iter__': lambda s: iter(F('x'))})()]",
    "__enter__": "with type('C', (), {'__enter__': lambda s: F('x'), '__exit__': lambda *a: None})():\n    pass",
    "__exit__": "with type('C', (), {'__enter__': lambda s: s, '__exit__': lambda *a: not F('x')})():\n    pass",
    "__instancecheck__": "isinstance(1, type('M', (type,), {'__instancecheck__': lambda c, o: F('x')})('C', (), {}))",
    "property": "type('C', (), {'p': property(lambda s: F('x'))})().p",
    "setter": "class C:\n    p = property(None, lambda s, v: F(v))\nC().p = 'x'",
    "class attribute": "class C:\n    m = F\n    def go(self): return type(self).__dict__['m']('x')\nC().go()",
    "method of a str": "type('C', (str,), {'m': F})('x').m()",
    "static method": "type('C', (), {'m': staticmethod(F)}).m('x')",
    "class method": "type('C', (), {'m': classmethod(lambda c, t: F(t))}).m('x')",
    "slot of a dataclass": "dataclasses.make_dataclass('C', [('a', str, dataclasses.field(default_factory=F))])()",
    "enum": "enum.Enum('E', {'A': 1}, type=type('M', (), {'__init__': lambda s, v: F('x') and None}))",
    "decorator": "@F\ndef g(): pass",
    "decorator of a class": "@F\nclass C: pass",
    "generator": "def g():\n    yield F('x')\nnext(g())",
    "generator expression": "next(F(t) for t in ['x'])",
    "send": "def g():\n    t = yield\n    yield F(t)\ni = g()\nnext(i)\ni.send('x')",
    "close of a generator": "def g():\n    try:\n        yield\n    finally:\n        F('x')\ni = g()\nnext(i)\ni.close()",
    "yield from": "def g():\n    yield from map(F, ['x'])\nlist(g())",
    "comprehension": "[F(t) for t in ['x']]",
    "dict comprehension": "{t: F(t) for t in ['x']}",
    "lambda": "(lambda f: f('x'))(F)",
    "default argument": "def g(f=F): return f('x')\ng()",
    "closure": "(lambda f: lambda: f('x'))(F)()",
    "conditional": "(F if True else print)('x')",
    "loop": "for f in [F]:\n    f('x')",
    "unpacking": "[f] = [F]\nf('x')",
    "match": "match [F]:\n    case [f]:\n        f('x')",
    "guard of a match": "match 1:\n    case 1 if F('x'):\n        pass",
    "walrus": "(f := F)('x')",
    "f-string": "f\"{F('x')}\"",
    "assert": "assert F('x')",
    "finally": "try:\n    pass\nfinally:\n    F('x')",
    "except": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    F('x')",
    "exec": "exec(\"F('x')\")",
    "exec with a namespace": "exec('f(t)', {'f': F, 't': 'x'})",
    "eval": "eval(\"F('x')\")",
    "compile": "exec(compile(\"F('x')\", 'other', 'exec'))",
    "ast": "exec(compile(ast.parse(\"F('x')\"), 'other', 'exec'))",
    "code of a lambda": "eval((lambda: F('x')).__code__, globals())",
    "a module": "m = types.ModuleType('m')\nexec('def go(f): return f(\"x\")', vars(m))\nm.go(F)",
    "timeit": "timeit.timeit(lambda: F('x'), number=1)",
    "timeit of a text": "timeit.timeit('f(\"x\")', number=1, globals={'f': F})",
    "contextlib": "@contextlib.contextmanager\ndef g():\n    yield F('x')\nwith g():\n    pass",
    "ExitStack": "with contextlib.ExitStack() as stack:\n    stack.callback(F, 'x')",
    "closing": "with contextlib.closing(types.SimpleNamespace(close=F)):\n    pass",
    "iter with a sentinel": "next(iter(F, None))",
    "copy": "copy.copy(type('C', (), {'__copy__': lambda s: F('x')})())",
    "deepcopy": "copy.deepcopy(type('C', (), {'__deepcopy__': lambda s, m: F('x')})())",
    "__reduce__": "class C:\n    def __reduce__(self): return F('x') and str, ()\npickle.dumps(C())",
    "pickler": "class P(pickle.Pickler):\n    def persistent_id(self, o): return F('x')\nP(io.BytesIO()).dump(5)",
    "unpickler": "class U(pickle.Unpickler):\n    def find_class(self, m, n): return F\n"
    "U(io.BytesIO(b'cos\\nsystem\\n(S\"x\"\\ntR.')).load()",
    "finalize": "class C: pass\no = C()\nweakref.finalize(o, F, 'x')()",
    "mock": "unittest.mock.Mock(side_effect=F)('x')",
    "patch": "with unittest.mock.patch('colorsys.rgb_to_hsv', F):\n    importlib.import_module('colorsys').rgb_to_hsv('x')",
    "string template": "re.compile('x').sub(lambda m: F('x'), 'x')",
    "formatter": "type('G', (string.Formatter,), {'get_value': lambda s, k, a, w: F('x')})().format('{0}')",
    "codecs": "codecs.register_error('own', lambda e: (F('x'), e.end))\n'é'.encode('ascii', 'own')",
    "logging filter": "logger = logging.getLogger('own')\nlogger.filters = [F]\nlogger.warning('x')\nlogger.filters = []",
    "sys.settrace": "def g(): pass\nsys.setprofile(None)\n(lambda t: t('x'))(F)",
    "inspect": "inspect.unwrap(functools.wraps(len)(lambda: 0), stop=F)",
    "dir": "dir(type('C', (), {'__dir__': lambda s: [F('x')]})())",
    "ABCMeta": "abc.ABCMeta('C', (), {'__subclasshook__': classmethod(lambda c, o: F('x') and True)}).__subclasscheck__(int)",
    "random": "random.Random().sample([F], 1)[0]('x')",
    "pprint": "pprint.pformat(type('C', (), {'__repr__': lambda s: F('x')})())",
    "Series.map": "df['a'].map(F)",
    "Series.apply": "df['a'].apply(F)",
    "Series.agg": "df['a'].agg(F)",
    "Series.pipe": "df['a'].pipe(F)",
    "DataFrame.agg": "df.agg({'a': F})",
    "DataFrame.apply": "df.apply(F)",
    "DataFrame.assign": "df.assign(b=F)",
    "DataFrame.pipe": "df.pipe(F)",
    "DataFrame.loc": "df.loc[lambda d: [F('x') == 'dropped']]",
    "DataFrame.rename": "df.rename(columns=F)",
    "groupby.apply": "df.groupby('a')['a'].apply(F)",
    "groupby.transform": "df.groupby(F).size()",
    "sort_values": "df.sort_values('a', key=lambda s: s.map(F))",
    "converters": "pd.read_csv(io.StringIO('a\\nx'), converters={'a': F})",
    "to_string": "df.to_string(formatters={'a': F})",
    "map_elements": "pl.Series(['x']).map_elements(F, return_dtype=pl.String)",
    "lazy map_elements": "pl.LazyFrame({'a': ['x']}).select(pl.col('a').map_elements(F, return_dtype=pl.String)).collect()",
    "map_batches": "pl.LazyFrame({'a': ['x']}).map_batches(lambda d: F('x') and d).collect()",
    "polars pipe": "pl.Series(['x']).to_frame().pipe(F)",
    "gc": "gc.callbacks.append(hook := lambda *_: F('x'))\ngc.callbacks.remove(hook)\nhook()",
    "import hook": "class Finder:\n    def find_spec(self, *_): F('x')\nsys.meta_path.insert(0, finder := Finder())\n"
    "try:\n    import no_such_module_at_all\nexcept ImportError:\n    pass\nfinally:\n    sys.meta_path.remove(finder)",
    "display hook": "(lambda hook: hook('x'))(F)",
    "vectorize": "np.vectorize(F)(['x'])",
    "frompyfunc": "np.frompyfunc(F, 1, 1)(['x'])",
    "apply_along_axis": "np.apply_along_axis(F, 0, np.array([1]))",
    "fromfunction": "np.fromfunction(F, (1,))",
    "piecewise": "np.piecewise(np.array([1.0]), [True], [lambda a: len(F('x'))])",
}  # fmt: skip

PLACES = {
    "the code itself": "WAY",
    "a function": "def place():\n    WAY\nplace()",
    "a method": "class Place:\n    def go(self):\n        WAY\nPlace().go()",
    "the body of a class": "class Place:\n    WAY",
    "text that is run": "exec(TEXT, globals())",
    "a task": "async def place():\n    WAY\nasyncio.run(place())",
    "a thread": "with raising() as place:\n    thread = threading.Thread(target=place.run, args=(BODY,))\n"
    "    thread.start()\n    thread.join()",
    "a timer": "with raising() as place:\n    thread = threading.Timer(0, place.run, [BODY])\n"
    "    thread.start()\n    thread.join()",
    "a thread without an object": "with raising() as place:\n    import _thread\n    done = threading.Event()\n"
    "    _thread.start_new_thread(lambda: (place.run(BODY), done.set()), ())\n    done.wait()",
    "a thread of a thread": "with raising() as place:\n    inner = lambda: [t.start() or t.join() for t in "
    "[threading.Thread(target=place.run, args=(BODY,))]]\n    outer = threading.Thread(target=inner)\n"
    "    outer.start()\n    outer.join()",
    "a new pool": "with concurrent.futures.ThreadPoolExecutor() as p:\n    p.submit(BODY).result()",
    "a pool of the person": "pool.submit(BODY).result()",
    "another pool of the person": "old_pool.apply(BODY)",
    "a pool of asyncio": "async def place():\n    await asyncio.to_thread(BODY)\nasyncio.run(place())",
    "a callback of a loop": "with raising() as place:\n    loop = asyncio.new_event_loop()\n"
    "    loop.call_soon(place.run, BODY)\n    loop.call_soon(loop.stop)\n    loop.run_forever()\n    loop.close()",
}  # fmt: skip

RAISING = '''
class raising:
    """Raises in this thread what was raised in another one."""
    error = None
    def __enter__(self): return self
    def run(self, body):
        try:
            body()
        except BaseException as error:
            self.error = error
    def __exit__(self, *_):
        if self.error is not None:
            raise self.error
'''


@dataclass(frozen=True)
class Way:
    """One way; ``str`` of it is its name."""

    way: str
    place: str
    holder: str

    def __str__(self) -> str:
        return f"{self.way} of {self.holder} in {self.place}"

    @property
    def code(self) -> str:
        """The code that calls the function; it needs `RAISING`."""
        way = re.sub(r"\bF\b", lambda _: HOLDERS[self.holder], WAYS[self.way])
        place = PLACES[self.place]
        if "TEXT" in place:
            return place.replace("TEXT", repr(way))
        if "BODY" in place:
            body = f"def body():\n{textwrap.indent(way, '    ')}\n"
            return body + place.replace("BODY", "body")
        lines = []
        for line in place.split("\n"):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(textwrap.indent(way, indent) if line.strip() == "WAY" else line)
        return "\n".join(lines)

    @property
    def is_python(self) -> bool:
        """Whether the parts fit together, as an assignment in a class body does not everywhere."""
        try:
            compile(self.code, "a way", "exec")
        except SyntaxError:
            return False
        return True


def pairs() -> list[Way]:
    """Each way in each place, and each way with each holder; what is left takes turns."""
    places, holders = list(PLACES), list(HOLDERS)
    ways = []
    for number, way in enumerate(WAYS):
        ways += [Way(way, p, holders[(number + at) % len(holders)]) for at, p in enumerate(places)]
        ways += [Way(way, places[(number + at) % len(places)], h) for at, h in enumerate(holders)]
    return list(filter(lambda each: each.is_python, dict.fromkeys(ways)))
