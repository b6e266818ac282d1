let draws = Random.State.make_self_init ()
let fresh () = String.concat "" (List.init 8 (fun _ -> Printf.sprintf "%04x" (Random.State.int draws 0x10000)))

module Make (Io : S.IO) = struct
  type 'a io = 'a Io.t

  let current = Io.task
  let within ?(name = fresh ()) act = Io.with_task name act
end
