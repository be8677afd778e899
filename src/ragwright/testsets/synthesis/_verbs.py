"""English verbs of instructions."""

from __future__ import annotations

import re

VERBS = frozenset(
    re.findall(
        r"\S+",
        """
        add apply attach back build calibrate change check choose clean clear close combine
        compare compile configure connect control convert copy create debug define delete
        deploy detect disable disconnect download draft draw edit enable evaluate export
        extend extract filter find fix format generate get handle import index ingest insert
        install judge keep launch limit link list load log maintain make manage measure mend
        merge migrate modify monitor mount move name open optimize order organize pack pair
        paste pick plan plot prepare press print protect publish query read recover reduce register
        remove rename repair replace report reset resolve restore run save schedule score
        search select send serve set share show sort split start stop store switch sync test
        track train translate troubleshoot tune turn uninstall unload update upgrade upload
        use validate verify view watch work write
        """,
    )
)
"""Verbs that instructions begin with."""
