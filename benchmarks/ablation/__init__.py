"""What each rule of the parser earns: it is switched off alone, and judges read the replies in which it decides."""
