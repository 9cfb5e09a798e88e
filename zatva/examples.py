"""Examples of every command, shown at the end of its help."""

from typing import Final

FIRST: Final = (
    "zatva demo",
    "zatva probe https://library.example/oai",
    "zatva harvest https://library.example/oai --out records",
)
"""Those of `zatva --help`."""
EXAMPLES: Final = """
zatva init
zatva init --force
zatva init --config /etc/zatva.toml
zatva demo
zatva demo --once
zatva doctor
zatva doctor --json
zatva settings
zatva settings --changed --json
zatva serve
zatva serve --port 8081 --web-port 8091
zatva database upgrade
zatva database current
zatva database check
zatva database backup /backup/zatva.backup
zatva database backup /backup/zatva.backup --store /backup/store
zatva database restore /backup/zatva.backup --force
zatva database restore /backup/zatva.backup --force --store /backup/store
zatva keys list
zatva keys rotate
zatva keys rotate --overlap-hours 48
zatva provider serve --port 8080
zatva provider index /archive/2026
zatva provider index /archive/2026/crawl-*.warc.gz --collection serials
zatva provider status
zatva provider statistics --by collection
zatva provider harvesters
zatva provider check https://library.example/oai
zatva provider collection add serials --name "Serials"
zatva provider collection list
zatva provider collection move serials periodicals
zatva provider collection drop serials
zatva provider collection access serials withheld
zatva provider collection assign serials --domain www.example.cz
zatva provider collection remove serials --domain www.example.cz
zatva provider access refresh
zatva provider hide http://www.example.cz/page.html
zatva provider unhide http://www.example.cz/page.html
zatva provider redate --set collection:serials
zatva provider takedown add "http://www.example.cz/blog/*" --reason "court order" --requester "Jan Novák"
zatva provider takedown add --list urls.txt --reason "personal data" --requester "Eva Malá" --dry-run
zatva provider takedown list
zatva provider takedown show 3
zatva provider takedown lift 3 --reason "the court decided otherwise"
zatva provider find http://www.example.cz/
zatva provider find "*.example.cz"
zatva provider export example.cz --domain --out example.wacz
zatva provider export --set collection:serials --out serials.warc.gz
zatva provider export --of-title library:web20132499695 --out title.wacz
zatva provider exports prepare --set collection:serials --title "Serials"
zatva provider exports list
zatva provider exports show 3
zatva provider exports remove 3
zatva provider reindex-keys
zatva provider verify
zatva provider verify /archive/2026/crawl-1.warc.gz
zatva provider aggregate add 3
zatva provider aggregate remove 3
zatva provider aggregate list
zatva provider aggregate status
zatva provider aggregate update
zatva provider titles import titles.jsonl --source library --dry-run
zatva provider titles import seeds.json --format archive-it --source archive-it
zatva provider titles import postgresql://reader@seeder.example/seeder --source seeder
zatva provider titles enrich --source seeder --repository 7 --dry-run
zatva provider titles enrich records.xml --source library
zatva provider titles import --dry-run
zatva provider titles list
zatva provider titles show library:web20132499695
zatva provider titles update
zatva harvest https://library.example/oai
zatva harvest https://library.example/oai --format marc21 --set books --out records
zatva harvest 7 --full
zatva probe https://library.example/oai
zatva repository add https://library.example/oai library
zatva repository list
zatva repository show 7
zatva repository remove 7
zatva repository refresh 7
zatva repository unlock 7
zatva repository edit 7 --name "Library"
zatva repository doctor 7
zatva repository doctor https://library.example/oai
zatva repository policy 7 --deletions mark
zatva restore http://www.example.cz/ site
zatva restore collection:serials site --as warc
zatva store verify
zatva store verify 7
zatva store rebuild 7
zatva store export 7 --as tar --out records.tar
zatva store audit list
zatva store audit show 12
zatva store audit run 7
zatva store audit schedule list
zatva store audit schedule set 7 --frequency "monthly on 1 at 03:00"
zatva store audit schedule remove 2
zatva import run --all
zatva import run --repository 7
zatva import status
zatva import list
zatva import refused
zatva import source 3
zatva import set list
zatva import set show maps
zatva import set remove maps
zatva import set add maps --where '655$a contains mapa'
zatva import set edit maps --match any
zatva import set try maps
zatva import search babička němcová
zatva import show 120
zatva import show 120 --lines
zatva import check --repository 7
zatva import check --repository 7 --level 2 --limit 20
zatva import export --repository 7 --out records.mrc
zatva manager run
zatva manager status
zatva worker --concurrency 4
zatva worker drain 2
zatva schedule add 7 --frequency "daily at 02:30" --zone Europe/Prague
zatva schedule add 7 --format marc21 --set books --validation strict
zatva schedule list
zatva schedule show 5
zatva schedule edit 5 --frequency "weekly on saturday at 01:00"
zatva schedule remove 5
zatva schedule run 5
zatva schedule sample 5 --records 20
zatva schedule pause 5
zatva schedule resume 5
zatva job list
zatva job history --limit 20
zatva job show 31
zatva job errors 40
zatva job remove 31
zatva job run 31
zatva job pause 31
zatva job resume 31
zatva job stop 31
zatva job kill 31
zatva job changes --since 0
zatva job release 40
zatva job wait 31
zatva rule list
zatva rule show 2
zatva rule versions 2
zatva rule examples
zatva rule add books rules/books.xml
zatva rule edit 2 rules/books.xml
zatva rule remove 2
zatva rule check rules/books.xml
zatva rule try rules/books.xml --repository 7
zatva rule replay 40
zatva notify add --on error --mail admin@library.example
zatva notify list
zatva notify remove 4
zatva notify test 4
zatva notify replace-key 4
zatva notify resend 4
zatva notify confirm 4
zatva notify sent
zatva notify mute --hours 2 --maintenance --note "network upgrade"
zatva notify mutes
zatva notify unmute 1
zatva notify acknowledge 17 --note "wrote to them"
zatva web serve --port 8090
zatva user add alena --role administrator
zatva user invite olga --role partner --organisation mzk
zatva user link alena
zatva user role olga curator
zatva user disable olga
zatva user enable olga
zatva user reset-second-factor olga
zatva user list
zatva organisation add mzk --name "Moravian Library"
zatva organisation give mzk 7
zatva organisation remove mzk
zatva organisation limit mzk --records 500000 --gigabytes 10
zatva organisation list
zatva token add alena reports --scope read
zatva token list
zatva token revoke 3
"""
"""A command line in each line; a command may have several."""
