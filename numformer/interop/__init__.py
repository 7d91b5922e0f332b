"""Published weights in and out: a folder becomes a model of ours, and a model such a folder.

`known_families` says which families are served, and what others lack.
"""

from numformer.interop.families import FAMILIES
from numformer.weights.family import Family
from numformer.interop.chat_template import ChatTemplate, chat_template
from numformer.interop.folder import family_of, gradients, load, save
from numformer.interop.published_files import read_published
from numformer.interop.text_settings import TextSettings, text_settings

__all__ = ["FAMILIES", "ChatTemplate", "Family", "TextSettings", "chat_template", "family_of",
           "gradients", "load", "read_published", "save", "text_settings"]
