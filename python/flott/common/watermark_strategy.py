"""How event time is found in a stream."""


class WatermarkStrategy:
    """Where the event time of a value is and how late it may be.

    >>> strategy = WatermarkStrategy.no_watermarks()
    """

    @staticmethod
    def no_watermarks() -> "WatermarkStrategy":
        """Without event time."""
        return WatermarkStrategy()
