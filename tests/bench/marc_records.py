"""MARC 21 records for benchmarks: about 2 kB and 20 fields each, all different."""

_FIRST = (
    "Jan",
    "Marie",
    "Josef",
    "Anna",
    "Petr",
    "Eva",
    "Karel",
    "Hana",
    "Jiří",
    "Ludmila",
    "Štefan",
    "Zuzana",
)
_LAST = (
    "Novák",
    "Svobodová",
    "Dvořák",
    "Černá",
    "Procházka",
    "Kučerová",
    "Veselý",
    "Horáková",
    "Němec",
    "Kráľ",
)
_NOUNS = (
    "dějiny",
    "slovník",
    "čtení",
    "výbor",
    "zpráva",
    "sborník",
    "mluvnice",
    "pověsti",
    "kronika",
    "úvod",
)


def _list(words: str) -> list[str]:
    """Return the words of a text."""
    return words.split()


_WORDS = _list(
    "český jazyk literatura středověk rukopis pravopis nářečí archiv knihovna město kraj "
    "Slovensko Morava husitství reformace baroko osvícenství obrození divadlo hudba umění "
    "škola řemeslo obchod cesta válka mír"
)
_LANGUAGES = ("cze", "cze", "cze", "slo", "ger", "eng", "lat")
_LEVELS = ("am", "am", "am", "aa", "as", "em")


def marc_record(number: int) -> str:
    """Return the metadata of the record with that number."""
    year = 1801 + number % 220
    name = f"{_LAST[number % 10]}, {_FIRST[number // 10 % 12]}"
    other = f"{_LAST[number // 7 % 10]}, {_FIRST[number // 70 % 12]}"
    noun, topic = _NOUNS[number // 3 % 10], _word(number)
    fixed = f"200101s{year}    xr ||||| ||||||||||||||{_LANGUAGES[number % 7]} d"
    fields = [
        _field("020", "  ", ("a", f"978-80-200-{number % 10000:04}-0 (váz.)")),
        _field("035", "  ", ("a", f"(BENCH){number:09}")),
        _field("040", "  ", ("a", "ABA001"), ("b", "cze"), ("d", "ABA001")),
        _field("072", " 7", ("a", "94(437)"), ("x", "Dějiny Česka"), ("2", "Konspekt"), ("9", "8")),
        _field("100", "1 ", ("a", f"{name},"), ("d", f"{year - 60}-"), ("7", f"jk{number % 5000:08}"),
               ("4", "aut")),
        _field("245", "10", ("a", f"{noun.capitalize()} a {topic} {number} :"),
               ("b", f"{_word(number // 2)} /"), ("c", f"{name} ; přeložila {other}")),
        _field("250", "  ", ("a", f"{number % 5 + 1}. vyd.")),
        _field("264", " 1", ("a", "Praha :"), ("b", f"Nakladatelství {_word(number // 11)},"),
               ("c", str(year))),
        _field("300", "  ", ("a", f"{number % 700 + 20} s. :"), ("b", "il. ;"), ("c", "24 cm")),
        _field("490", "1 ", ("a", f"Knihovna {_word(number // 13)} ;"), ("v", f"sv. {number % 90}")),
        _field("500", "  ", ("a", f"Obsahuje rejstříky, poznámky a {_word(number // 17)}")),
        _field("504", "  ", ("a", "Bibliografie na s. 201-215")),
        *(_field("650", "07", ("a", _word(number // step)), ("7", f"ph{step:06}"), ("2", "czenas"))
          for step in (1, 5, 19)),
        _field("653", "  ", ("a", f"{topic} {_word(number // 23)}")),
        _field("655", " 7", ("a", "monografie"), ("7", "fd132842"), ("2", "czenas")),
        _field("700", "1 ", ("a", other), ("7", f"xx{number % 9000:07}"), ("4", "trl")),
        _field("856", "41", ("u", f"http://bench.example/record/{number}"), ("y", "Digitalizovaný dokument")),
        _field("910", "  ", ("a", "ABA001"), ("b", f"54 H {number}")),
    ]  # fmt: skip
    return (
        '<record xmlns="http://www.loc.gov/MARC21/slim">'
        f"<leader>     n{_LEVELS[number % 6]} a22     2i 4500</leader>"
        f'<controlfield tag="001">bench{number:09}</controlfield>'
        '<controlfield tag="003">XX-Bench</controlfield>'
        f'<controlfield tag="008">{fixed}</controlfield>{"".join(fields)}</record>'
    )


def _word(number: int) -> str:
    return _WORDS[number % len(_WORDS)]


def _field(tag: str, indicators: str, *subfields: tuple[str, str]) -> str:
    inner = "".join(f'<subfield code="{code}">{value}</subfield>' for code, value in subfields)
    return f'<datafield tag="{tag}" ind1="{indicators[0]}" ind2="{indicators[1]}">{inner}</datafield>'
