"""The effects of calls outside of the variables: files, programs and connections."""
