"""The documentation site: it is built without a warning, and its examples use what there is."""

from __future__ import annotations

import functools
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import archytas_nb
from archytas_nb import errors, pytest_plugin, testing

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with the command of CONTRIBUTING.md, into another folder."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    [command] = re.findall(r"&& (sphinx-build .*) site`", page)
    folder = tmp_path_factory.mktemp("site")
    cache = tmp_path_factory.mktemp("doctrees")
    arguments = [*command.split()[1:], "-q", "-d", str(cache), str(folder)]
    built = subprocess.run(
        [sys.executable, "-m", "sphinx", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert built.returncode == 0, built.stderr[-3000:]
    return folder


def page_of(site: Path, source: Path) -> Path:
    return (site / source.relative_to(ROOT)).with_suffix(".html")


def test_every_page_is_built_without_a_warning(site: Path) -> None:
    missing = [each for each in (*PAGES, *NOTEBOOKS) if not page_of(site, each).exists()]
    assert missing == []


def test_the_root_of_the_site_leads_to_its_first_page(site: Path) -> None:
    [there] = re.findall(r'url=([^"]+)"', (site / "index.html").read_text(encoding="utf-8"))
    assert (site / there).exists()


def test_the_notebooks_are_pages_with_their_traces(site: Path) -> None:
    page = page_of(site, NOTEBOOKS[0]).read_text(encoding="utf-8")
    assert "The Gentoo birds are well-fed" in re.sub(r"<[^>]+>", "", page)
    assert 'class="anb-trace' in page


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    broken = []
    for page in site.rglob("*.html"):
        links = re.findall(r'<a [^>]*href="([^":#]+)["#]', page.read_text(encoding="utf-8"))
        broken += [(page.name, link) for link in links if not (page.parent / link).exists()]
    assert broken == []


def test_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    pages = [page.read_text(encoding="utf-8") for page in site.rglob("*.html")]
    found = {
        link
        for page in pages
        for link in re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page)
    }
    assert found == set()


def exported() -> set[str]:
    """The names that a user may import, of the package and of `archytas_nb.testing`."""
    named = {f"archytas_nb.{name}" for name in archytas_nb.__all__ if "_extension" not in name}
    here = {
        name
        for name, value in vars(testing).items()
        if getattr(value, "__module__", "") == testing.__name__
    }
    return named - {"archytas_nb.__version__"} | {f"archytas_nb.testing.{name}" for name in here}


@pytest.fixture(scope="module")
def described(site: Path) -> dict[str, Any]:
    """The paths of the functions, classes and members that the page of the Python API describes."""
    page = page_of(site, ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    paths = set(re.findall(r'<dt [^>]*id="(archytas_nb\.[\w.]+)"', page))
    # A field of a dataclass is no attribute of its class.
    return {path: _value(path) for path in paths}


def _value(path: str) -> Any:
    try:
        return pkgutil.resolve_name(path)
    except AttributeError:
        return None


@functools.cache
def names_in_the_package() -> dict[str, Any]:
    """Its classes, and its aliases of types, by their names in annotations."""
    modules = [each for name, each in sys.modules.items() if name.startswith("archytas_nb.")]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if hasattr(value, "__args__")
        or str(getattr(value, "__module__", "")).startswith("archytas_nb.")
    }


def classes_in(annotation: object, own: dict[str, Any]) -> set[type]:
    """The classes of this package that an annotation names, also through aliases.

    Args:
        annotation: The annotation.
        own: The names of its module, which come before those of other modules.
    """
    words = re.findall(r"\w+", annotation if isinstance(annotation, str) else repr(annotation))
    known = names_in_the_package()
    values = [own.get(word, known[word]) for word in words if word in known]
    found = {value for value in values if isinstance(value, type)}
    for value in values:
        if hasattr(value, "__args__"):
            found |= classes_in(value, own)
    return found


def classes_of(value: Any, *, returned: bool = False) -> set[type]:
    """The classes that a function or property takes or returns, or that a class has in fields."""
    function = getattr(value, "fget", value)
    named = {
        name: each
        for name, each in getattr(function, "__annotations__", {}).items()
        if name == "return" or not (returned or name.startswith("_"))
    }
    own = vars(sys.modules[function.__module__]) if named else {}
    return set().union(*(classes_in(each, own) for each in named.values()))


def test_the_python_api_describes_every_public_name(described: dict[str, Any]) -> None:
    assert exported() - described.keys() == {"archytas_nb.toolbox"}
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert "archytas_nb.toolbox" in page


def test_the_python_api_describes_all_errors_and_all_that_its_functions_return(
    described: dict[str, Any],
) -> None:
    classes = {each for each in described.values() if isinstance(each, type)}
    returned = [classes_of(each, returned=True) for each in described.values()]
    assert len(set().union(*returned)) > 20
    assert set().union(*returned) - classes == set()
    known = {each for each in vars(errors).values() if isinstance(each, type)}
    assert {each for each in known if issubclass(each, errors.ArchytasError)} - classes == set()


def test_the_python_api_describes_nothing_else(described: dict[str, Any]) -> None:
    """Any other class is an error, or what a public one takes, returns or holds."""
    public = {described[path] for path in exported() & described.keys()}
    public |= {each for each in vars(errors).values() if isinstance(each, type)}
    while True:
        members = [
            value
            for path, value in described.items()
            if value in public or described.get(path.rpartition(".")[0]) in public
        ]
        more = set().union(*map(classes_of, members)) - public
        if not more:
            break
        public |= more
    classes = {path for path, value in described.items() if isinstance(value, type)}
    assert {path for path in classes if described[path] not in public} == set()
    private = [path for path in described if "._" in path.removeprefix("archytas_nb.")]
    assert private == []


def test_the_sections_name_every_page_once() -> None:
    sections = [each for each in PAGES if each.parent.name == "sections"]
    named = [
        (section.parent / f"{line}{suffix}").resolve()
        for section in sections
        for line in section.read_text(encoding="utf-8").splitlines()
        if line.startswith("../")
        for suffix in (".md", ".ipynb")
        if (section.parent / f"{line}{suffix}").exists()
    ]
    assert sorted(named) == sorted([*({*PAGES} - {*sections}), *NOTEBOOKS])


def test_the_command_line_is_described() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "archytas_nb", "--help"], capture_output=True, text=True, check=True
    ).stdout
    commands = re.findall(r"{([\w,]+)}", shown)[0]
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for command in commands.split(","):
        assert f"`{command}`" in page
        shown = subprocess.run(
            [sys.executable, "-m", "archytas_nb", command, "--help"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for option in re.findall(r"--[a-z-]+", shown):
            assert f"`{option}" in page, option


def test_the_options_and_fixtures_of_pytest_are_described() -> None:
    page = (ROOT / "docs" / "pytest.md").read_text(encoding="utf-8")
    source = inspect.getsource(pytest_plugin)
    options = {f"--agent-{name}" for name in pytest_plugin._OPTIONS}
    options |= set(re.findall(r'"(--agent-[a-z-]+)"', source))
    fixtures = re.findall(r"@pytest\.fixture\ndef (\w+)", source)
    assert len(fixtures) == 3
    for name in (*options, *fixtures):
        assert f"`{name}" in page, name


def test_what_a_page_does_with_an_agent_or_a_run_is_public(described: dict[str, Any]) -> None:
    texts = [page.read_text(encoding="utf-8") for page in (README, *PAGES)]
    texts += [
        "".join(cell["source"])
        for page in NOTEBOOKS
        for cell in json.loads(page.read_text(encoding="utf-8"))["cells"]
    ]
    used = {name for text in texts for name in re.findall(r"\b(?:agent|run)\.([a-z_]+)\b", text)}
    assert len(used) > 20
    public = {
        path.rpartition(".")[2]
        for path in described
        if re.search(r"\.(Agent|Run|CurrentRun)\.", path)
    }
    assert used - public - {"py", "toml"} == set()
