"""Images, audio and files: inline data, or a reference to a file.

Rule: the client's own part is kept, for an upstream of this API.
"""

from fcshim.codecs.gemini.field_names import take_field
from fcshim.events import JSON
from fcshim.messages import MediaPart, placeholder

_DEFAULT_MEDIA_TYPE = "application/octet-stream"


def read_media(part: dict[str, JSON], path: str) -> MediaPart | None:
    """Read a part; None if it is of another kind."""
    blob = take_field(part, "inlineData", dict, None, f"{path}.")
    if blob is not None:
        kind = take_field(blob, "mimeType", str, _DEFAULT_MEDIA_TYPE, f"{path}.inlineData.")
        return MediaPart(kind, data=take_field(blob, "data", str, "", f"{path}.inlineData."), raw=part)
    file = take_field(part, "fileData", dict, None, f"{path}.")
    if file is not None:
        kind = take_field(file, "mimeType", str, _DEFAULT_MEDIA_TYPE, f"{path}.fileData.")
        return MediaPart(kind, url=take_field(file, "fileUri", str, "", f"{path}.fileData."), raw=part)
    return None


def write_media(part: MediaPart) -> dict[str, JSON]:
    """Return the part: the client's own if it comes from this API, else converted."""
    if isinstance(part.raw, dict) and part.raw.keys() & {"inlineData", "inline_data", "fileData", "file_data"}:
        return part.raw
    if part.data and not part.media_type.endswith("/*"):
        return {"inlineData": {"mimeType": part.media_type, "data": part.data}}
    if part.url:
        return {"fileData": {"fileUri": part.url, "mimeType": part.media_type}}
    return {"text": placeholder(part).text}
