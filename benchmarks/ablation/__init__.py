"""What each rule of the parser earns: it is switched off alone, and the judges read replies in which it decides."""
