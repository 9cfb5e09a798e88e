"""Language codes: what records write becomes the three letters of ISO 639-2/B, as MARC has them.

The table is our own: a library with all 8,000 languages, their names in 200 languages included, would weigh
thirty times as much as this program's converters.
"""

import functools
import re
from typing import Final

from harvester.bibliographic.folding import fold


def _table(pairs: str) -> dict[str, str]:
    """What `a=b c=d` tells."""
    return dict(pair.split("=") for pair in pairs.split())


_TWO: Final = _table(
    "aa=aar ab=abk ae=ave af=afr ak=aka am=amh an=arg ar=ara as=asm av=ava ay=aym az=aze ba=bak "
    "be=bel bg=bul bh=bih bi=bis bm=bam bn=ben bo=tib br=bre bs=bos ca=cat ce=che ch=cha co=cos "
    "cr=cre cs=cze cu=chu cv=chv cy=wel da=dan de=ger dv=div dz=dzo ee=ewe el=gre en=eng eo=epo "
    "es=spa et=est eu=baq fa=per ff=ful fi=fin fj=fij fo=fao fr=fre fy=fry ga=gle gd=gla gl=glg "
    "gn=grn gu=guj gv=glv ha=hau he=heb hi=hin ho=hmo hr=hrv ht=hat hu=hun hy=arm hz=her ia=ina "
    "id=ind ie=ile ig=ibo ii=iii ik=ipk io=ido is=ice it=ita iu=iku ja=jpn jv=jav ka=geo kg=kon "
    "ki=kik kj=kua kk=kaz kl=kal km=khm kn=kan ko=kor kr=kau ks=kas ku=kur kv=kom kw=cor ky=kir "
    "la=lat lb=ltz lg=lug li=lim ln=lin lo=lao lt=lit lu=lub lv=lav mg=mlg mh=mah mi=mao mk=mac "
    "ml=mal mn=mon mr=mar ms=may mt=mlt my=bur na=nau nb=nob nd=nde ne=nep ng=ndo nl=dut nn=nno "
    "no=nor nr=nbl nv=nav ny=nya oc=oci oj=oji om=orm or=ori os=oss pa=pan pi=pli pl=pol ps=pus "
    "pt=por qu=que rm=roh rn=run ro=rum ru=rus rw=kin sa=san sc=srd sd=snd se=sme sg=sag sh=hbs "
    "si=sin sk=slo sl=slv sm=smo sn=sna so=som sq=alb sr=srp ss=ssw st=sot su=sun sv=swe sw=swa "
    "ta=tam te=tel tg=tgk th=tha ti=tir tk=tuk tl=tgl tn=tsn to=ton tr=tur ts=tso tt=tat tw=twi "
    "ty=tah ug=uig uk=ukr ur=urd uz=uzb ve=ven vi=vie vo=vol wa=wln wo=wol xh=xho yi=yid yo=yor "
    "za=zha zh=chi zu=zul cz=cze"
)
_TERMINOLOGY: Final = _table(
    "bod=tib ces=cze cym=wel deu=ger ell=gre eus=baq fas=per fra=fre hye=arm isl=ice kat=geo mkd=mac "
    "mri=mao msa=may mya=bur nld=dut ron=rum slk=slo sqi=alb zho=chi scc=srp scr=hrv mol=rum"
)
_NAMES: Final = _table(
    "czech=cze cestina=cze cesky=cze ceski=cze slovak=slo slovencina=slo slovenstina=slo "
    "slovensky=slo english=eng anglictina=eng anglicky=eng german=ger nemcina=ger nemecky=ger "
    "deutsch=ger french=fre francouzstina=fre francuzstina=fre francais=fre latin=lat latina=lat "
    "latinsky=lat russian=rus rustina=rus rusky=rus polish=pol polstina=pol polsky=pol hungarian=hun "
    "madarstina=hun madarcina=hun italian=ita italstina=ita taliancina=ita spanish=spa "
    "spanelstina=spa spanielcina=spa"
)
_NO_LANGUAGE: Final = frozenset({"und", "mul", "zxx", "mis"})
_CODE: Final = re.compile(r"[a-z]{3}")


@functools.lru_cache(maxsize=1024)
def language_code(text: str) -> str | None:
    """The code for a code, a tag such as `cs-CZ`, or a name; None where it is not known to be a language.

    A three-letter code is taken at its word. Codes that tell of no language (`und`, `mul`, `zxx`) give None.
    """
    word = text.strip().lower()
    first = re.split(r"[-_]", word, maxsplit=1)[0]
    if first in _TWO:
        return _TWO[first]
    if _CODE.fullmatch(first):
        code = _TERMINOLOGY.get(first, first)
        return None if code in _NO_LANGUAGE else code
    return _NAMES.get(fold(word))


def split_codes(text: str) -> list[str]:
    """The codes of a MARC subfield: one, or several run together as older records have them ("engfre")."""
    word = text.strip().lower()
    if len(word) > 3 and len(word) % 3 == 0 and word.isascii() and word.isalpha():  # noqa: PLR2004
        return [word[place : place + 3] for place in range(0, len(word), 3)]
    return [part for part in re.split(r"[\s,;]+", word) if part]
