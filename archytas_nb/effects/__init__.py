"""What calls do outside of the variables: files, programs and connections."""
