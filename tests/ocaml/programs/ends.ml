(* ends.exe unix|lwt ACT URL …: an application with an end of a channel, led by lines of standard input. *)

open Sapwood

module type WAY = sig
  type 'a io

  val ( let* ) : 'a io -> ('a -> 'b io) -> 'b io
  val return : 'a -> 'a io
  val attempt : (unit -> 'a io) -> (('a, exn) result -> 'b io) -> 'b io
  val run : (unit -> unit io) -> unit

  type ends

  val ends : Unix.file_descr -> ends
  val write : ends -> string -> unit io
  val finish : ends -> unit io
  val read : ends -> string io
  val close : ends -> unit io
end

let say form = Printf.ksprintf (fun line -> print_string (line ^ "\n"); flush stdout) form
let pattern size = String.init size (fun place -> Char.chr (place * 7 mod 251))

let way_of name = List.find (fun way -> Channel.name way = name) Channel.ways

module Acts
    (Way : WAY)
    (Session : S.SESSION with type 'a io = 'a Way.io)
    (Ends : S.CHANNEL with type 'a io := 'a Way.io and type session := Session.t) =
struct
  open Way

  let rec all ends found =
    let* part = read ends in
    if part = "" then return (Buffer.contents found)
    else begin
      Buffer.add_string found part;
      all ends found
    end

  let rec exactly ends size =
    if size <= 0 then return 0
    else
      let* part = read ends in
      exactly ends (size - String.length part)

  let told act =
    attempt act (function
      | Ok said -> return (say "%s" said)
      | Error (Unix.Unix_error (ECONNRESET, _, _)) -> return (say "reset")
      | Error error -> return (say "%s" (Printexc.to_string error)))

  let rec led ends =
    match String.split_on_char ' ' (input_line stdin) with
    | exception End_of_file -> return ()
    | words ->
        let act () =
          match words with
          | [ "write"; size ] ->
              let* () = write ends (pattern (int_of_string size)) in
              return "written"
          | [ "finish" ] ->
              let* () = finish ends in
              return "finished"
          | [ "all" ] ->
              let* found = all ends (Buffer.create 4096) in
              return (Printf.sprintf "%d %s" (String.length found) (Digest.to_hex (Digest.string found)))
          | [ "read"; size ] ->
              let* over = exactly ends (int_of_string size) in
              return (Printf.sprintf "read, and %d more" (-over))
          | [ "close" ] ->
              let* () = close ends in
              return "closed"
          | _ -> failwith "not understood"
        in
        let* () = told act in
        led ends

  let wrong act =
    attempt act (function
      | Ok () -> return ()
      | Error (Errors.Channel_failed text) -> return (say "failed: %s" text)
      | Error error -> return (say "%s" (Printexc.to_string error)))

  let make url queue wait () =
    let* session = Session.connect url in
    let* descriptor, given = Ends.make ~wait session in
    let* () = Session.send session queue (Channel.to_string given) in
    say "made";
    led (ends descriptor)

  let take url queue ways () =
    let* session = Session.connect url in
    let* _ = Session.create session ~queue in
    let* () = Session.subscribe session queue in
    say "subscribed";
    let rec next seen =
      let* messages = Session.transfer session ~ack_to:seen ~seconds:20. in
      match messages with
      | [] -> next seen
      | (message : Message.t) :: _ ->
          let* () = Session.ack session message.id in
          let* descriptor, way = Ends.take ~ways session (Channel.of_string message.payload) in
          say "%s" (Channel.name way);
          led (ends descriptor)
    in
    next (-1L)

  let act () =
    let word = Array.get Sys.argv in
    let ways () = List.map way_of (String.split_on_char ',' (word 5)) in
    run (fun () ->
        wrong
          (match word 2 with
          | "make" -> make (word 3) (word 4) (float_of_string (word 5))
          | "take" -> take (word 3) (word 4) (ways ())
          | other -> failwith other))
end

module Blocking =
  Acts
    (struct
      type 'a io = 'a

      let ( let* ) value next = next value
      let return value = value
      let attempt act after = after (try Ok (act ()) with error -> Error error)
      let run act = act ()

      type ends = Unix.file_descr

      let ends line = line

      let write line text =
        let rec go from =
          if from < String.length text then
            go (from + Unix.write_substring line text from (String.length text - from))
        in
        go 0

      let finish line = Unix.shutdown line SHUTDOWN_SEND

      let read line =
        let part = Bytes.create 65536 in
        Bytes.sub_string part 0 (Unix.read line part 0 65536)

      let close = Unix.close
    end)
    (Sapwood_unix.Session)
    (Sapwood_unix.Channel)

module Asynchronous =
  Acts
    (struct
      type 'a io = 'a Lwt.t

      let ( let* ) = Lwt.bind
      let return = Lwt.return
      let attempt act after = Lwt.try_bind act (fun value -> after (Ok value)) (fun error -> after (Error error))
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
    end)
    (Sapwood_lwt.Session)
    (Sapwood_lwt.Channel)

(* Whether each line of standard input is a channel, and how each of its URLs is understood. *)
let rec read () =
  match input_line stdin with
  | exception End_of_file -> ()
  | line ->
      let place url =
        match Channel.place url with
        | None -> "none"
        | Some (At_socket path) -> "unix " ^ path
        | Some (At_address (host, port)) -> Printf.sprintf "tcp %s %d" (Unix.string_of_inet_addr host) port
        | Some (At_node (node, name)) -> Printf.sprintf "tree %s %s" node name
      in
      (match Channel.of_string line with
      | { urls; _ } -> say "%s" (String.concat "; " (List.map place urls))
      | exception Json.Wrong text -> say "wrong: %s" text);
      read ()

let () =
  match Sys.argv.(1) with
  | "unix" -> Blocking.act ()
  | "lwt" -> Asynchronous.act ()
  | "read" -> read ()
  | other -> failwith other
