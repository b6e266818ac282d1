(** Ends of channels, for programs that wait: [Sapwood_unix.Channel] and [Sapwood_lwt.Channel] are made of it.

    Law: a channel is taken once. Its secret goes to the process beside an application by a socket, where no list of
    processes shows it. *)

open Sapwood

val make : ?wait:float -> Place.t -> Unix.file_descr * Channel.t
val take : ?ways:Channel.way list -> ?timeout:float -> Place.t -> Channel.t -> Unix.file_descr * Channel.way
