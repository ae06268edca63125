"""RabbitMQ's classic configuration, `rabbitmq.config` and `advanced.config`, as entries (O-2.4).

A file is a list of `{application, [{key, value}, ...]}`. A key becomes the name that it has in
`rabbitmq.conf`, so that what is known, what it means and what is told about it is the same for both
notations; keys below keys are joined with dots. `warren` is an application, too: its keys are
Warren's own. A single `{key, value}` in place of the list is one of `rabbit`: so documents quote
it. Of a key that comes twice, the later one counts.

What is no such list, and applications that nobody has, are problems. One that RabbitMQ has and
Warren does not is one entry with its name, for whoever tells of such keys.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from warren.server.conf_term import Atom, List, Term, TermError, Tuple, read_terms
from warren.server.config_entry import Entry, Problem
from warren.server.rabbit_known import APPLICATIONS

if TYPE_CHECKING:
    from pathlib import Path

# Applications whose keys are keys of `rabbitmq.conf`, behind a prefix.
_PREFIXES: Final = {
    "rabbit": "",
    "warren": "",
    "kernel": "kernel.",
    "rabbitmq_management": "management.",
    "rabbitmq_prometheus": "prometheus.",
}
# Keys that are called otherwise there.
_RENAMED: Final = {
    "kernel.net_ticktime": "net_ticktime",
    "num_tcp_acceptors": "num_acceptors.tcp",
    "num_ssl_acceptors": "num_acceptors.ssl",
    "management.tcp_config": "management.tcp",
    "management.ssl_config": "management.ssl",
    "prometheus.tcp_config": "prometheus.tcp",
    "prometheus.ssl_config": "prometheus.ssl",
    "log.file.file": "log.file",
    "log.console.enabled": "log.console",
    "log.exchange.enabled": "log.exchange",
    "log.syslog.enabled": "log.syslog",
    "log.journald.enabled": "log.journald",
    "log.categories.default.level": "log.default.level",
}
Found = list[tuple[str, object]]


def looks_classic(text: str) -> bool:
    """Whether a text of unknown notation begins as a list of tuples does."""
    begun = ""
    for line in text.splitlines():
        if not line.startswith("#"):
            begun += line.partition("%")[0].replace(" ", "").replace("\t", "")
        if len(begun) > 1:
            break
    return begun[:2] in ("[{", "[]") or begun[:1] == "{"


def read_classic(path: "Path", text: str, problems: list[Problem]) -> list[Entry]:
    """Return the entries of a file."""
    try:
        terms = read_terms(text)
    except TermError as refusal:
        problems.append(Problem(f"{path}:{refusal.line}", "", refusal.reason, ""))
        return []
    reader = _Reader(path, problems)
    for term in terms:
        reader.file(term)
    return [entry for entries in reader.found.values() for entry in entries]


class _Reader:
    def __init__(self, path: "Path", problems: list[Problem]) -> None:
        self.path = path
        self.folder = path.absolute().parent
        self.problems = problems
        # By key of the file: what it stands for.
        self.found: dict[str, list[Entry]] = {}

    def refuse(self, line: int, key: str, reason: str) -> None:
        self.problems.append(Problem(f"{self.path}:{line}", key, reason, ""))

    def file(self, term: Term) -> None:
        if isinstance(term, Tuple) and not _names_application(term):
            self.setting("", term, term.line)
            return
        if not isinstance(term, Tuple | List):
            self.refuse(1, "", "expected a list of {application, [{key, value}, ...]}")
            return
        for one in term.items if isinstance(term, List) else (term,):
            self.application(one)

    def application(self, term: Term) -> None:
        line = term.line if isinstance(term, Tuple | List) else 1
        pair = _pair(term)
        if pair is None or not isinstance(pair[1], List):
            self.refuse(line, "", "expected {application, [{key, value}, ...]}")
            return
        name, items = pair[0], pair[1].items
        if name in APPLICATIONS:
            self.found[name] = [self.entry(name, "", line)]
        elif name not in _PREFIXES:
            self.refuse(line, name, "an application that neither Warren nor RabbitMQ has")
        else:
            for one in items:
                self.setting(_PREFIXES[name], one, line, rabbit=name != "warren")

    def setting(self, prefix: str, term: Term, line: int, *, rabbit: bool = True) -> None:
        line = term.line if isinstance(term, Tuple | List) else line
        pair = _pair(term)
        if pair is None:
            self.refuse(line, prefix.rstrip("."), "expected {key, value}")
            return
        name = prefix + pair[0]
        try:
            meant = _meant(name, pair[1])
        except ValueError as refusal:
            self.refuse(line, name, str(refusal))
            return
        self.found[name] = [self.entry(one, value, line, rabbit=rabbit) for one, value in meant]

    def entry(self, name: str, value: object, line: int, *, rabbit: bool = True) -> Entry:
        return Entry(name, value, f"{self.path}:{line}", True, self.folder, rabbit=rabbit)


def _names_application(term: Tuple) -> bool:
    pair = _pair(term)
    return pair is not None and (pair[0] in _PREFIXES or pair[0] in APPLICATIONS)


def _pair(term: Term) -> tuple[str, Term] | None:
    """Return the key and value of a tuple; or None where it is none."""
    if not isinstance(term, Tuple) or len(term.items) != 2:
        return None
    key = term.items[0]
    if not isinstance(key, str | bytes) or not key:
        return None
    return str(_plain(key)), term.items[1]


def _plain(term: Term) -> object:
    """Return a term as what a typed source gives."""
    if isinstance(term, Atom):
        return {"true": True, "false": False}.get(term, str(term))
    if isinstance(term, bytes):
        return term.decode("utf-8", "replace")
    if isinstance(term, Tuple | List):
        return [_plain(one) for one in term.items]
    return term


def _meant(name: str, value: Term) -> Found:
    """Return what a key and its value are called in `rabbitmq.conf`; ValueError: the wrong form."""
    name = _RENAMED.get(name, name)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(name, value)
    if isinstance(value, List) and any(isinstance(one, Tuple) for one in value.items):
        # Words without a value among them (`binary` of the socket options) mean nothing here.
        pairs = [_pair(one) for one in value.items if not isinstance(one, Atom)]
        if all(pair is not None for pair in pairs):
            return [
                meant for pair in pairs if pair for meant in _meant(f"{name}.{pair[0]}", pair[1])
            ]
    return [(name, _plain(value))]


def _listeners(name: str, value: Term) -> Found:
    group = "listeners.tcp" if name == "tcp_listeners" else "listeners.ssl"
    if not isinstance(value, List):
        raise ValueError('expected a list of ports or {"address", port}')
    found: Found = []
    for number, one in enumerate(value.items, 1):
        if isinstance(one, Tuple) and len(one.items) >= 2:
            host, port = str(_plain(one.items[0])).strip("[]"), _plain(one.items[1])
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        else:
            address = str(_plain(one))
        found.append((f"{group}.{number}", address))
    return found or [(group, "none")]


def _limit(words: Mapping[str, str]) -> Callable[[str, Term], Found]:
    def read(name: str, value: Term) -> Found:
        if not isinstance(value, Tuple):
            return [(name, _plain(value))]
        pair = _pair(value)
        if pair is None or pair[0] not in words:
            forms = ", ".join(f"{{{word}, ...}}" for word in words)
            raise ValueError(f"expected a value, or {forms}")
        return [(f"{name}.{words[pair[0]]}", _plain(pair[1]))]

    return read


def _permissions(name: str, value: Term) -> Found:
    if not isinstance(value, List) or len(value.items) != 3:
        raise ValueError("expected three patterns: configure, write, read")
    words = ("configure", "write", "read")
    return [(f"{name}.{word}", _plain(one)) for word, one in zip(words, value.items, strict=True)]


def _properties(name: str, value: Term) -> Found:
    found: Found = []
    for one in _items(value):
        # {Name, Value}, or {Name, Type, Value} as the protocol has it.
        if not isinstance(one, Tuple) or len(one.items) not in (2, 3):
            raise ValueError("expected a list of {name, value}")
        shown = _plain(one.items[-1])
        text = str(shown).lower() if isinstance(shown, bool) else str(shown)
        found.append((f"{name}.{_plain(one.items[0])}", text))
    return found


def _prefetch(name: str, value: Term) -> Found:
    """`{Global, Count}`; only that of each consumer is known here."""
    if isinstance(value, Tuple) and len(value.items) == 2:
        if value.items[0] != "false":
            raise ValueError("expected {false, count}: there is no default for whole channels")
        return [(name, _plain(value.items[1]))]
    return [(name, _plain(value))]


def _items(value: Term) -> Iterable[Term]:
    if not isinstance(value, List):
        raise ValueError("expected a list")
    return value.items


_SPECIAL: Final[Mapping[str, Callable[[str, Term], Found]]] = {
    "tcp_listeners": _listeners,
    "ssl_listeners": _listeners,
    "vm_memory_high_watermark": _limit({"absolute": "absolute", "relative": "relative"}),
    "disk_free_limit": _limit(
        {"absolute": "absolute", "relative": "relative", "mem_relative": "relative"}
    ),
    "default_permissions": _permissions,
    "server_properties": _properties,
    "default_consumer_prefetch": _prefetch,
}
