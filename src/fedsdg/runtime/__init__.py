"""How messages travel: in one process, and (later) over the engines that operators know."""
