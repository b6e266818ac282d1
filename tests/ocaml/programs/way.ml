(* The two ways in which a program waits, for tests that do the same in both. *)

module type S = sig
  type 'a io

  val ( let* ) : 'a io -> ('a -> 'b io) -> 'b io
  val return : 'a -> 'a io
  val fail : exn -> 'a io
  val attempt : (unit -> 'a io) -> (('a, exn) result -> 'b io) -> 'b io
  val both : (unit -> unit io) list -> unit io

  val aside : (unit -> unit io) -> unit
  (* Go on with it while others do something else. *)

  val sleep : float -> unit io
  val fork : unit -> int
  val run : (unit -> unit io) -> unit

  (* An end of a channel. *)
  type ends

  val ends : Unix.file_descr -> ends
  val write : ends -> string -> unit io
  val finish : ends -> unit io
  val read : ends -> string io
  val close : ends -> unit io

  module Task : Sapwood.S.TASK with type 'a io := 'a io
  module Session : Sapwood.S.SESSION with type 'a io = 'a io
  module Rpc : Sapwood.S.RPC with type 'a io = 'a io and type session = Session.t
  module Channel : Sapwood.S.CHANNEL with type 'a io := 'a io and type session := Session.t
end

module Blocking : S with type 'a io = 'a = struct
  type 'a io = 'a

  let ( let* ) value next = next value
  let return value = value
  let fail = raise
  let attempt act after = after (try Ok (act ()) with error -> Error error)
  let both acts = List.iter Thread.join (List.map (fun act -> Thread.create act ()) acts)
  let aside act = ignore (Thread.create act ())
  let sleep = Thread.delay
  let fork = Unix.fork
  let run act = act ()

  type ends = Unix.file_descr

  let ends line = line

  let write line text =
    let rec go from =
      if from < String.length text then go (from + Unix.write_substring line text from (String.length text - from))
    in
    go 0

  let finish line = Unix.shutdown line SHUTDOWN_SEND

  let read line =
    let part = Bytes.create 65536 in
    Bytes.sub_string part 0 (Unix.read line part 0 65536)

  let close = Unix.close

  include Sapwood_unix
end

module Asynchronous : S with type 'a io = 'a Lwt.t = struct
  type 'a io = 'a Lwt.t

  let ( let* ) = Lwt.bind
  let return = Lwt.return
  let fail = Lwt.fail
  let attempt act after = Lwt.try_bind act (fun value -> after (Ok value)) (fun error -> after (Error error))
  let both acts = Lwt.join (List.map (fun act -> act ()) acts)
  let aside = Lwt.async
  let sleep = Lwt_unix.sleep
  let fork = Lwt_unix.fork
  let run act = Lwt_main.run (act ())

  type ends = Lwt_io.input_channel * Lwt_io.output_channel

  let ends = Sapwood_lwt.Channel.lwt

  let write (_, output) text =
    let* () = Lwt_io.write output text in
    Lwt_io.flush output

  let finish (_, output) = Lwt_io.close output
  let read (input, _) = Lwt_io.read ~count:65536 input

  let close (input, output) =
    let* () = Lwt_io.close output in
    Lwt_io.close input

  include Sapwood_lwt
end

module Reading (Way : S) = struct
  open Way

  let rec all ?(found = Buffer.create 4096) ends =
    let* part = read ends in
    if part = "" then return (Buffer.contents found)
    else begin
      Buffer.add_string found part;
      all ~found ends
    end
end

let say form = Printf.ksprintf (fun line -> print_string (line ^ "\n"); flush stdout) form
