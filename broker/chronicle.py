"""What this node tells the advisory log, in the words of its core."""

from typing import Final

from broker.advisory_log import AdvisoryLog
from config.model import Site
from treeconnector.destinations import Destination
from treeconnector.frames import Advice


class Chronicle:
    """The core's end of the advisory log; silent where the site has it switched off."""

    def __init__(self, site: Site) -> None:
        settings = site.advisory_log
        self._log = (
            AdvisoryLog(
                site.advisory_directory,
                tree=site.tree,
                node=site.name,
                role=site.role,
                max_bytes=settings.max_bytes_per_file,
                max_files=settings.max_files,
                gzip=settings.gzip,
            )
            if settings.enabled
            else None
        )
