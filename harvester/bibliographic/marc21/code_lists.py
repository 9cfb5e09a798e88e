"""MARC's codes for countries, languages and relators.

Source: MARC Code List for Countries; MARC Code List for Languages (ISO 639-2/B with MARC's additions); MARC
Code List for Relators.
"""

from typing import Final


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


COUNTRIES: Final = _codes(
    """
    aa abc aca ae af ag ai aj aku alu am an ao aq aru as at au aw ay azu ba bb bcc bd be bf bg bh bi bl bm
    bn bo bp br bs bt bu bv bw bx ca cau cb cc cd ce cf cg ch ci cj ck cl cm co cou cq cr ctu cu cv cw cx cy
    dcu deu dk dm dq dr ea ec eg em enk er es et fa fg fi fj fk flu fm fp fr fs ft gau gb gd gg gh gi gl gm
    go gp gr gs gt gu gv gw gy gz hiu hm ho ht hu iau ic idu ie ii ilu im inu io iq ir is it iv iy ja je ji
    jm jo ke kg kn ko ksu ku kv kyu kz lau lb le lh li lo ls lu lv ly mau mbc mc mdu meu mf mg miu mj mk ml
    mm mnu mo mou mp mq mr msu mtu mu mv mw mx my mz nbu ncu ndu ne nfc ng nhu nik nju nkc nl nmu nn no np
    nq nr nsc ntc nu nuc nvu nw nx nyu nz ohu oku onc oru ot pau pc pe pf pg ph pic pk pl pn po pp pr pw py
    qa qea quc rb re rh riu rm ru rw sa sc scu sd sdu se sf sg sh si sj sl sm sn snc so sp sq sr ss st stk
    su sw sx sy sz ta tc tg th ti tk tl tma tnu to tr ts tu tv txu tz ua uc ug uik un up utu uv uy uz vau vb
    vc ve vi vm vp vra vtu wau wea wf wiu wj wk wlk ws wvu wyu xa xb xc xd xe xf xga xh xj xk xl xm xn xna
    xo xoa xp xr xra xs xv xx xxc xxk xxu ye ykc za
"""
)
FORMER_COUNTRIES: Final = _codes(
    """
    ac air ajr bwr cn cp cs cz err ge gn gsr hk iu iw jn kgr kzr lir ln lvr mh mvr na nm pt rur ry sb sk sv
    tar tkr tt ui uk unr ur us uzr vn vs wb xi xxr ys yu
"""
)
"""Codes that were valid once, such as `cs` for Czechoslovakia; records of that time have them."""
LANGUAGES: Final = _codes(
    """
    aar abk ace ach ada ady afa afh afr ain aka akk alb ale alg alt amh ang anp apa ara arc arg arm arn arp
    art arw asm ast ath aus ava ave awa aym aze bad bai bak bal bam ban baq bas bat bej bel bem ben ber bho
    bih bik bin bis bla bnt bos bra bre btk bua bug bul bur byn cad cai car cat cau ceb cel cha chb che chg
    chi chk chm chn cho chp chr chu chv chy cmc cnr cop cor cos cpe cpf cpp cre crh crp csb cus cze dak dan
    dar day del den dgr din div doi dra dsb dua dum dut dyu dzo efi egy eka elx eng enm epo est ewe ewo fan
    fao fat fij fil fin fiu fon fre frm fro frr frs fry ful fur gaa gay gba gem geo ger gez gil gla gle glg
    glv gmh goh gon gor got grb grc gre grn gsw guj gwi hai hat hau haw heb her hil him hin hit hmn hmo hrv
    hsb hun hup iba ibo ice ido iii ijo iku ile ilo ina inc ind ine inh ipk ira iro ita jav jbo jpn jpr jrb
    kaa kab kac kal kam kan kar kas kau kaw kaz kbd kha khi khm kho kik kin kir kmb kok kom kon kor kos kpe
    krc krl kro kru kua kum kur kut lad lah lam lao lat lav lez lim lin lit lol loz ltz lua lub lug lui lun
    luo lus mac mad mag mah mai mak mal man mao map mar mas may mdf mdr men mga mic min mis mkh mlg mlt mnc
    mni mno moh mon mos mul mun mus mwl mwr myn myv nah nai nap nau nav nbl nde ndo nds nep new nia nic niu
    nno nob nog non nor nqo nso nub nwc nya nym nyn nyo nzi oci oji ori orm osa oss ota oto paa pag pal pam
    pan pap pau peo per phi phn pli pol pon por pra pro pus que raj rap rar roa roh rom rum run rup rus sad
    sag sah sai sal sam san sas sat scn sco sel sem sga sgn shn sid sin sio sit sla slo slv sma sme smi smj
    smn smo sms sna snd snk sog som son sot spa srd srn srp srr ssa ssw suk sun sus sux swa swe syc syr tah
    tai tam tat tel tem ter tet tgk tgl tha tib tig tir tiv tkl tlh tli tmh tog ton tpi tsi tsn tso tuk tum
    tup tur tut tvl twi tyv udm uga uig ukr umb und urd uzb vai ven vie vol vot wak wal war was wel wen wln
    wol xal xho yao yap yid yor ypk zap zbl zen zha znd zul zun zxx zza
"""
)
FORMER_LANGUAGES: Final = _codes(
    """
    ajm cam esk esp eth far fri gae gag gal gua int iri kus lan lap max mla mol sao scc scr sho snh sso swz
    tag taj tar tru tsw
"""
)
"""Codes that were valid once, such as `scc` for Serbian."""
RELATORS: Final = _codes(
    """
    abr acp act adi adp aft anc anl anm ann ant ape apl app aqt arc ard arr art asg asn ato att auc aud aue
    aui aup aus aut bdd bjd bka bkd bkp blw bnd bpd brd brl bsl cad cas ccp chr cli cll clr clt cmm cmp cmt
    cnd cng cns coe col com con cop cor cos cot cou cov cpc cpe cph cpl cpt cre crp crr crt csl csp cst ctb
    cte ctg ctr cts ctt cur cwt dbd dbp dfd dfe dft dgc dgg dgs dis djo dln dnc dnr dpc dpt drm drt dsr dst
    dtc dte dtm dto dub edc edd edm edt egr elg elt eng enj etr evp exp fac fds fld flm fmd fmk fmo fmp fnd
    fon fpy frg gdv gis grt his hnr hst ill ilu ink ins inv isb itr ive ivr jud jug lbr lbt ldr led lee lel
    len let lgd lie lil lit lsa lse lso ltg ltr lyr mcp mdc med mfp mfr mka mod mon mrb mrk msd mte mtk mup
    mus mxe nan nrt onp opn org orm osp oth own pad pan pat pbd pbl pdr pfr pht plt pma pmn pnc pop ppm ppt
    pra prc prd pre prf prg prm prn pro prp prs prt prv pta pte ptf pth ptt pup rap rbr rcd rce rcp rdd red
    ren res rev rpc rps rpt rpy rse rsg rsp rsr rst rth rtm rxa sad sce scl scr sde sds sec sfx sgd sgn sht
    sll sng spk spn spy srv std stg stl stm stn str swd tad tau tcd tch ths tld tlg tlh tlp trc trl tyd tyg
    uvp vac vdg vfx voc wac wal wam wat waw wdc wde wfs wft wfw win wit wpr wst wts
"""
)
