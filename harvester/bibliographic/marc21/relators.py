"""Roles: relator codes, and the words (English, Czech, Slovak, German, French, Latin) used in catalogues.

Source: MARC Code List for Relators, Library of Congress.
"""

import functools
import re
from typing import Final

from harvester.bibliographic.marc21.code_lists import RELATORS
from harvester.bibliographic.text import fold

_AND: Final = re.compile(r"\s+(?:and|und|et|a|&)\s+|\s*[,;/]\s+")
_CODE: Final = re.compile(r"(?:^|(/))([a-z]{3})(?(1)(?:\.\w+)?)$")
_FEMALE: Final = re.compile(r" ?in(?:nen)?$")
"""The German ending of women, or of persons of any sex: "VerfasserIn", "Verfasser:innen"."""

_WORDS: Final = {
    "abr": "abridger zkracovatel zkr",
    "act": "actor herec herecka herci",
    "adp": "adapter adaptator adapt upravovatel uprav upr",
    "anl": "analyst analytik",
    "ann": "annotator komentator anotator annot",
    "arr": "arranger aranzer arr",
    "art": "artist umelec vytvarnik",
    "asn": "associated_name asociovane_jmeno",
    "aui": "author_of_introduction autor_uvodu autorka_uvodu autor_predmluvy autor_predhovoru predml uvod "
    "introd",
    "aut": "author autor autorka verfasser verf auteur auteur_du_texte auctor writer spisovatel autori "
    "joint_author jt_author jt_auth",
    "aft": "author_of_afterword autor_doslovu autorka_doslovu doslov",
    "aus": "screenwriter scenarista",
    "bkd": "book_designer knizni_upravce",
    "bnd": "binder vazac knihar",
    "bsl": "bookseller knihkupec",
    "cmp": "composer skladatel hudobny_skladatel hud komp komponist compositeur",
    "cnd": "conductor dirigent dirig",
    "col": "collector sberatel zberatel",
    "com": "compiler comp joint_comp sestavovatel sest kompilator zostavovatel zost sestavil poradatel porad",
    "cov": "cover_designer navrhar_obalky autor_obalky",
    "cph": "copyright_holder",
    "cre": "creator tvurce tvorca",
    "ctb": "contributor prispevatel",
    "ctg": "cartographer kartograf",
    "cwt": "commentator_for_written_text autor_komentare",
    "dgg": "degree_granting_institution instituce_udelujici_hodnost",
    "dnr": "donor donator",
    "drt": "director reziser",
    "dst": "distributor",
    "dte": "dedicatee adresat_dedikace",
    "dto": "dedicator autor_dedikace",
    "edt": "editor editorka editori ed eds edit joint_ed jt_ed redaktor redaktorka redig vydavatel_literarni "
    "herausgeber hrsg hg vedecky_redaktor editeur_scientifique",
    "egr": "engraver engr rytec ryt graveur",
    "fmo": "former_owner predchozi_vlastnik povodny_vlastnik",
    "fnd": "funder",
    "hnr": "honoree oslavenec jubilant",
    "ill": "illustrator illustr illus ilustrator ilustratorka ilustr il illustrateur",
    "ilu": "illuminator iluminator",
    "isb": "issuing_body vydavajici_organ",
    "ive": "interviewee dotazovany respondent",
    "ivr": "interviewer tazatel",
    "lbt": "librettist libretista",
    "ltg": "lithographer litograf",
    "lyr": "lyricist textar",
    "mus": "musician hudebnik",
    "nrt": "narrator vypravec rozpravac",
    "oth": "other jine ine",
    "own": "owner vlastnik majitel",
    "pbl": "publisher publ nakladatel nakl vydavatel vyd verleger",
    "pht": "photographer photogr phot fotograf fotografka fotogr fot photographe",
    "prf": "performer perf interpret ucinkujici",
    "prn": "production_company",
    "pro": "producer producent",
    "prt": "printer tiskar tisk typ tlaciar",
    "rcp": "addressee adresat",
    "rev": "reviewer recenzent recenzovany_autor",
    "red": "redaktor_odborny",
    "res": "researcher vyzkumnik",
    "rth": "research_team_head vedouci_vyzkumu",
    "scr": "scribe pisar opisovac",
    "sng": "singer zpevak spevak",
    "spn": "sponsor sponzor",
    "ths": "thesis_advisor degree_supervisor vedouci_prace skolitel veduci_prace",
    "trl": "translator tr transl prekladatel prekladatelka prel prekl prelozil ubers ubersetzer traducteur",
    "wac": "writer_of_added_commentary",
    "win": "writer_of_introduction",
    "wpr": "writer_of_preface prefacier",
    "wst": "writer_of_supplementary_textual_content",
}  # fmt: skip
_CODES: Final = {word.replace("_", " "): code for code, words in _WORDS.items() for word in words.split()}


@functools.lru_cache(maxsize=1024)
def relator(text: str) -> str:
    """Return the relator code for a code, an address that ends with one, or a word; else the text itself.

    >>> relator("http://id.loc.gov/vocabulary/relators/trl"), relator("Překl."), relator("knihomol")
    ('trl', 'trl', 'knihomol')
    """
    plain = text.strip().rstrip(".,; ")
    folded = fold(plain)
    word = _CODES.get(folded) or _CODES.get(_FEMALE.sub("", folded))
    if word:  # before codes, for some abbreviations have three letters, too
        return word
    found = _CODE.search(plain.lower())
    return found[2] if found and found[2] in RELATORS else plain


@functools.lru_cache(maxsize=1024)
def roles(text: str) -> tuple[str, ...]:
    """Return the roles in a text that may name several.

    >>> roles("ed. and tr."), roles("autor, ilustrátor"), roles("opisovatel a sběratel not")
    (('edt', 'trl'), ('aut', 'ill'), ('opisovatel a sběratel not',))
    """
    parts = tuple(relator(part) for part in _AND.split(text.strip(" .,;")))
    return parts if len(parts) > 1 and all(part in _WORDS for part in parts) else (relator(text),)
