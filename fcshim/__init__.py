"""fcshim gives native-grade tool calling to language models that have none."""
