"""Per-site configuration: one frozen model, read from XML or YAML.

| module | |
|---|---|
| `accounts` | the accounts of a node's applications: names, where their hashed passwords are |
| `alarm_rules` | alarms that cannot be |
| `alarms` | the sections of a site's file that say when an alarm is raised, and who is told |
| `application_rules` | applications and their accounts that cannot be |
| `behaviour` | the sections of a site's file that most sites leave alone: how a node behaves |
| `build` | from a document to the model: every key and value is checked, and every mistake is kept |
| `channel_rules` | forwards and folders that cannot be |
| `channels` | the sections of a site's file that name what others may reach here through channels |
| `children` | the sections that say who may be a child, and what children may do |
| `contradictions` | what rules find: a combination that cannot be, each value being right by itself |
| `convert` | other brokers' bridges, read into a site's configuration; what has no counterpart is said |
| `credentials` | secrets: named in the configuration |
| `document` | a file's content before its meaning: sections, lists and scalars, each with its place |
| `enrolment` | what a site's file says of children that join by invitation, and of their certificates |
| `errors` | what is wrong with a configuration, all of it at once, and where |
| `fields` | how the model describes itself: one record for each setting, read by everything else |
| `files` | opens files that a person has named, and never waits for one |
| `fleet` | a whole chain from one table of sites: nobody edits 2,000 files |
| `kinds` | the kinds of values that a setting can have: how each is written, checked and put into a schema |
| `line_rules` | combinations of lines out, and of strategies for them, that cannot be |
| `load` | loads a site's file, XML or YAML by its suffix, with every path made absolute |
| `mesh` | the mesh that a node is in: two or three roots that are one, or two or three branches |
| `mesh_rules` | combinations in a mesh that cannot be |
| `model` | the one model of a site's file |
| `oidc` | operators who log in elsewhere: the issuer whose tokens a node takes, and their roles |
| `operators` | who looks at a node and administrates it, by a token and with a role |
| `permit_rules` | children and their permits that cannot be |
| `site_broker_rules` | combinations in the section of the site's broker that cannot be |
| `reference` | the commented reference files: every setting with its default, meaning and unit |
| `records` | frozen records whose methods are not generated, so that a node starts sooner |
| `rules` | combinations that cannot be, each value being right by itself |
| `schema` | the published schemas of a site's file, generated from the model |
| `schemes` | one table of protocols: the schemes of addresses, over what links ride |
| `site_brokers` | the section of the broker that a site's applications use |
| `strategies` | the strategies by which a connector orders its ways: four words, and installed ones |
| `tls` | TLS in a site's file: towards servers that the node dials, and of its own port |
| `uris` | addresses in a configuration: link URIs, site-broker URIs, hosts |
| `values` | the kinds that settings share: names, paths, variables, times, sizes and counts |
| `whole_files` | writes a file in place of what it holds: whole, durably, with its rights |
| `write` | writes a site as XML or YAML text: only what differs from the defaults, so a file stays small |
| `xml` | reads a site's file in XML. Values are attributes, sections are elements |
| `yaml` | reads a site's file in YAML 1.2 as far as a configuration needs it |
| `yaml_errors` | mistakes of a file that is not YAML, in words of people who write configurations |
"""
